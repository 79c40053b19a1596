"""How an engine speaks: its start and its ends as acts, and what stands in front of its lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import vllm_boot, vllm_ending, vllm_failures, vllm_lines, vllm_windows
from .acts import Act, Say
from .boot import boot, taken_port
from .ending import drain, interrupt
from .failures import lost_while_loading, lost_while_serving
from .lines import stamped

if TYPE_CHECKING:
    from .engine import Engine
    from .launch import Launch


@dataclass(frozen=True)
class Dialect:
    """`bound` is the line that tells of an open port, "" where there is none; `watch` runs beside the engine from then
    on."""

    boot: Callable[[Launch, int], Iterator[Act]]
    taken_port: Callable[[Launch, str, int, int], Iterator[Act]]
    lost_while_loading: Callable[..., Iterator[Act]]
    lost_while_serving: Callable[..., Iterator[Act]]
    drain: Callable[[Engine], Awaitable[int]]
    interrupt: Callable[[Engine], Awaitable[int]]
    stamped: Callable[[Engine, Say], str]
    bound: str
    watch: Callable[[Engine], Awaitable[None]] | None = None


def _sglang_stamp(engine: Engine, act: Say) -> str:
    return stamped(act.text, engine.world.now(), "" if act.rank is None else engine.launch.ranks[act.rank])


SGLANG = Dialect(
    boot=boot,
    taken_port=taken_port,
    lost_while_loading=lost_while_loading,
    lost_while_serving=lost_while_serving,
    drain=drain,
    interrupt=interrupt,
    stamped=_sglang_stamp,
    bound="INFO:     Uvicorn running on http://{host}:{port} (Press CTRL+C to quit)",
)

VLLM = Dialect(
    boot=vllm_boot.boot,
    taken_port=vllm_boot.taken_port,
    lost_while_loading=vllm_failures.lost_while_loading,
    lost_while_serving=vllm_failures.lost_while_serving,
    drain=vllm_ending.shut_down,
    interrupt=vllm_ending.shut_down,
    stamped=vllm_lines.stamped,
    bound="",
    watch=vllm_windows.watch,
)


def dialect_of(launch: Launch) -> Dialect:
    return VLLM if launch.engine == "vllm" else SGLANG
