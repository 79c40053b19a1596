"""How an engine speaks: its start and its ends as acts, and what stands in front of its lines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import llamacpp_boot, llamacpp_lines, vllm_boot, vllm_ending, vllm_failures, vllm_lines, vllm_windows
from .acts import Act, Say
from .boot import boot, taken_port
from .ending import drain, interrupt
from .failures import lost_while_loading, lost_while_serving
from .lines import stamped

if TYPE_CHECKING:
    from .batch import Job
    from .engine import Engine
    from .launch import Launch


@dataclass(frozen=True)
class Dialect:
    """`bound` is the line that tells of an open port, "" where there is none; `watch` runs beside the engine from then
    on; `finished` are the lines of a request that has ended. An engine that `loads_behind_its_port` minds signals, and
    answers, only when it is ready."""

    boot: Callable[[Launch, int], Iterator[Act]]
    taken_port: Callable[[Launch, str, int, int], Iterator[Act]]
    lost_while_loading: Callable[..., Iterator[Act]]
    lost_while_serving: Callable[..., Iterator[Act]]
    drain: Callable[[Engine], Awaitable[int]]
    interrupt: Callable[[Engine], Awaitable[int]]
    stamped: Callable[[Engine, Say], str]
    bound: str
    watch: Callable[[Engine], Awaitable[None]] | None = None
    finished: Callable[[Engine, Job], Iterator[str]] | None = None
    loads_behind_its_port: bool = False


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


LLAMACPP = Dialect(
    boot=llamacpp_boot.boot,
    taken_port=llamacpp_boot.taken_port,
    lost_while_loading=llamacpp_boot.lost_while_loading,
    lost_while_serving=llamacpp_boot.lost_while_serving,
    drain=llamacpp_boot.shut_down,
    interrupt=llamacpp_boot.shut_down,
    stamped=llamacpp_lines.stamped,
    bound="",
    finished=llamacpp_lines.finished,
    loads_behind_its_port=True,
)

DIALECTS: Mapping[str, Dialect] = {"sglang": SGLANG, "vllm": VLLM, "llamacpp": LLAMACPP}


def dialect_of(launch: Launch) -> Dialect:
    return DIALECTS[launch.engine]
