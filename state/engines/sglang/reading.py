"""SGLang's artefacts as one reading: log, metrics, server info, answers, argv."""

from collections.abc import Mapping, Sequence
from typing import Any

from state.engines.sglang.adjustments import ADJUSTMENT_WORDS
from state.engines.sglang.answer import read_answer
from state.engines.sglang.decode import batch_slots
from state.engines.sglang.failures import remedy
from state.engines.sglang.log_lines import ROUTER_MARKS, SglangLines
from state.engines.sglang.metrics import read_metrics
from state.engines.sglang.server_info import read_server_info
from state.inspection.reading import NO_EVIDENCE, STRONG, WEAK, Sample
from state.inspection.report import AnswerReport, MetricsReport, ServerInfoReport
from state.inspection.shapes import Slot
from state.inspection.signatures import ANCHORS, has_any

_STRONG = (
    b"server_args=ServerArgs(",
    b"server_args={",
    b"The server is fired up and ready to roll",
    b"sglang serve: error",
    b"launch_server.py: error",
    b"sglang.launch_server",
    b"usage: sglang",
    b"usage: launch_server.py",
    b"Load weight begin",
    b"Load weight end.",
    b"Scheduler hit an exception",
    b"usage: python -m sglang",
    b"sglang_router",
)
_WEAK = (
    b"/sglang/srt/",
    b"sglang::",
    b"sglang.srt",
    b"SGLANG_",
    b"sgl_kernel",
    b"sgl-kernel",
    b"/sglang/",
    b"flashinfer_python",
)
_WORTH = (
    *ANCHORS,
    b" batch", b"server_args=", b"HTTP/", b"GB", b"GiB", b"SIMULATE", b"resource_tracker", b"oad weight ",
    b"llocated", b"upper bound", b" shards", b"Capturing", b"fired up", b"startup", b"Uvicorn", b"Shutting",
    b"--spec", b"ack to", b"etract", b"orkers", b"launch_server", b"SIG", b"kill_process", b"Interrupt",
    b"Gracefully", b"Traceback", b"Initialization",
)  # fmt: skip
"""What every line that SGLang's reader understands has; checked by a test over all composed cases."""


class SglangReading:
    name = "sglang"
    words = (*_WORTH, *ADJUSTMENT_WORDS)

    def line_reader(self) -> SglangLines:
        return SglangLines()

    def evidence(self, line: bytes) -> int:
        if b" batch" in line and (b"Decode batch" in line or b"Prefill batch" in line) and b"#" in line:
            return STRONG
        if has_any(line, _STRONG):
            return STRONG
        return WEAK if has_any(line, _WEAK) else NO_EVIDENCE

    def worth(self, line: bytes) -> bool:
        if b": obj=" in line[:80] and (b"Receive: obj=" in line[:80] or b"Finish: obj=" in line[:80]):
            return False
        return has_any(line, _WORTH) or has_any(line.lower(), ADJUSTMENT_WORDS)

    def stream(self, line: bytes) -> str:
        return "router" if has_any(line, ROUTER_MARKS) else ""

    def slots(self, line: bytes) -> Sequence[Slot]:
        return batch_slots(line)

    def remedy(self, code: str) -> str:
        return remedy(code)

    def flags_at(self, argv: Sequence[str]) -> int | None:
        """`python -m sglang.launch_server ARGS` (all versions) and `sglang serve ARGS` (0.5.5 and later)."""
        for position, word in enumerate(argv):
            following = argv[position + 1] if position + 1 < len(argv) else ""
            if word == "-m" and following == "sglang.launch_server":
                return position + 2
            if word.rsplit("/", 1)[-1] == "sglang" and following == "serve":
                return position + 2
            if word.endswith("sglang/launch_server.py"):
                return position + 1
        return None

    def read_metrics(self, samples: Sequence[Sample]) -> MetricsReport | None:
        return read_metrics(samples)

    def read_server_info(self, data: Mapping[str, Any]) -> ServerInfoReport | None:
        return read_server_info(data)

    def read_answer(self, data: Mapping[str, Any]) -> AnswerReport | None:
        return read_answer(data)


READING = SglangReading()
