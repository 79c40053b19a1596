"""vLLM's artefacts as one reading: log, metrics, server info, answers, argv."""

from collections.abc import Mapping, Sequence
from typing import Any

from state.engines.vllm.failures import remedy
from state.engines.vllm.log_lines import VllmLines
from state.engines.vllm.metrics import read_metrics
from state.engines.vllm.server_info import read_answer, read_server_info
from state.inspection.reading import NO_EVIDENCE, STRONG, WEAK, Sample
from state.inspection.report import AnswerReport, MetricsReport, ServerInfoReport
from state.inspection.shapes import Slot, digit_slots
from state.inspection.signatures import ANCHORS, has_any

_STRONG = (
    b"vLLM API server version",
    b"SpecDecoding metrics:",
    b"Speculative metrics:",
    b"LLM engine (v",
    b"(APIServer pid=",
    b"(EngineCore",
    b"(VllmWorker",
    b"(Worker_",
    b"(Worker pid=",
    b"non-default args: {",
    b"Avg generation throughput:",
    b"vllm serve: error",
    b"api_server.py: error",
    b"usage: vllm serve",
    b"usage: api_server.py",
    b"vLLM engine",
)
_WEAK = (b"/vllm/", b"vllm.", b"VLLM_", b"VLLM::", b"vLLM")
_WORTH = (
    *ANCHORS,
    b"metrics: ", b"throughput:", b"config: ", b"args: ", b"HTTP/", b"GB", b"GiB", b"SIMULATE", b"resource_tracker",
    b"vLLM API", b"architecture", b"oading", b"Starting", b"blocks", b"concurrency", b"apturing", b"init engine",
    b"tartup", b"Started", b"Waiting", b"Detected", b"Sharing", b"Shutting", b"SIG", b"Interrupt", b"reempt",
    b"eprecat", b"isabl", b"djust", b"etting", b"back", b"verrid", b"caching", b"scheduling", b"hit an",
    b"to start", b"fatal", b" pid=", b"vllm",
)  # fmt: skip
"""What every line that vLLM's reader understands has; checked by a test over all composed cases."""


class VllmReading:
    name = "vllm"
    words = _WORTH

    def line_reader(self) -> VllmLines:
        return VllmLines()

    def evidence(self, line: bytes) -> int:
        if has_any(line, _STRONG):
            return STRONG
        return WEAK if has_any(line, _WEAK) else NO_EVIDENCE

    def worth(self, line: bytes) -> bool:
        return b"Received request " not in line[:160] and has_any(line, _WORTH)

    def stream(self, line: bytes) -> str:
        return ""

    def slots(self, line: bytes) -> Sequence[Slot]:
        tag = line.find(b")") + 1 if line[:1] == b"(" else 0
        return digit_slots(line, tag)

    def remedy(self, code: str) -> str:
        return remedy(code)

    def flags_at(self, argv: Sequence[str]) -> int | None:
        """`vllm serve MODEL ARGS` and `python -m vllm.entrypoints.openai.api_server ARGS`."""
        for position, word in enumerate(argv):
            following = argv[position + 1] if position + 1 < len(argv) else ""
            if word == "-m" and following.startswith("vllm.entrypoints"):
                return position + 2
            if word.rsplit("/", 1)[-1] == "vllm" and following == "serve":
                return position + 2
            if word.endswith("vllm/entrypoints/openai/api_server.py"):
                return position + 1
        return None

    def read_metrics(self, samples: Sequence[Sample]) -> MetricsReport | None:
        return read_metrics(samples)

    def read_server_info(self, data: Mapping[str, Any]) -> ServerInfoReport | None:
        return read_server_info(data)

    def read_answer(self, data: Mapping[str, Any]) -> AnswerReport | None:
        return read_answer(data)


READING = VllmReading()
