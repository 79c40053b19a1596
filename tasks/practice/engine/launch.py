"""One start of the engine as a value: everything that decides what it will do, read before it does anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .arguments import ParserExit, parse_arguments
from .config_file import merged
from .faults import Faults, ignore_flags, parse_faults
from .flags import flags_of
from .models import Files, Model, ModelMissing, read_model
from .resolution import ResolutionFailed, Resolved, resolve
from .settings import Settings, parse_settings
from .versions import Version


@dataclass(frozen=True)
class Installation:
    """What is installed: version, the folder shown in tracebacks and warnings, settings and faults."""

    version: Version
    site: str
    settings: Settings
    faults: Faults


@dataclass(frozen=True)
class Launch:
    installation: Installation
    asked: Mapping[str, object]
    resolved: Resolved
    model: Model
    draft: Model | None
    faults: Faults
    environment: Mapping[str, str]
    argv: tuple[str, ...]
    legacy_entry: bool
    engine: str = "sglang"  # or "vllm", "llamacpp"

    @property
    def version(self) -> Version:
        return self.installation.version

    @property
    def settings(self) -> Settings:
        return self.installation.settings

    @property
    def ranks(self) -> tuple[str, ...]:
        """The log prefix of each scheduler process, without leading space: "TP0", "DP1 TP0", "" for a single GPU."""
        if self.engine == "llamacpp":
            return ()
        if self.engine == "vllm":
            tp = max(1, self.resolved.integer("tp_size"))
            return ("EngineCore", *(f"Worker_TP{rank}" for rank in range(tp) if tp > 1))
        tp, dp = max(1, self.resolved.integer("tp_size")), max(1, self.resolved.integer("dp_size"))
        tensor = [f"TP{rank}" for rank in range(tp)] if tp > 1 else [""]
        data = [f"DP{rank}" for rank in range(dp)] if dp > 1 else [""]
        return tuple(" ".join(part for part in (d, t) if part) for d in data for t in tensor)

    @property
    def titles(self) -> tuple[str, ...]:
        if self.engine == "vllm":
            return tuple(f"VLLM::{label}" for label in self.ranks)
        return tuple("sglang::scheduler" + (f"_{rank.replace(' ', '_')}" if rank else "") for rank in self.ranks)

    @property
    def simulated_accept_length(self) -> float | None:
        text = self.environment.get("SGLANG_SIMULATE_ACC_LEN", "")
        try:
            return float(text) if text and float(text) > 0 else None
        except ValueError:
            return None

    @property
    def draft_is_useful(self) -> bool:
        """False where the checkpoint holds no weights for the draft: it loads without a word, and accepts nothing."""
        if self.resolved.speculation == "NGRAM":
            return True
        return self.draft is not None and self.draft_bytes > 0

    @property
    def draft_bytes(self) -> int:
        if self.draft is None:
            return 0
        alone = ("EAGLE3", "STANDALONE", "DFLASH", "DRAFT_MODEL")
        whole = self.resolved.speculation in alone or "Eagle" in self.draft.architecture
        return self.draft.weight_bytes if whole else self.draft.mtp_bytes


class Refusal(Exception):
    """The process ends before anything starts: text for stdout, text for stderr, exit status."""

    def __init__(self, status: int, *, stdout: str = "", stderr: str = "") -> None:
        super().__init__(stderr or stdout)
        self.status, self.stdout, self.stderr = status, stdout, stderr


def prepare(
    installation: Installation, argv: Sequence[str], environment: Mapping[str, str], files: Files, *, legacy_entry: bool
) -> Launch:
    """Parse, resolve, read the models from `files`. Raises Refusal as the engine would end."""
    version = installation.version
    preface = _legacy_warning(installation) if legacy_entry and version.warns_of_legacy_entry else ""
    try:
        asked = parse_arguments(merged(argv, files), version)
    except ParserExit as error:
        texts = {"stdout": error.text, "stderr": preface} if error.status == 0 else {"stderr": preface + error.text}
        raise Refusal(error.status, **texts) from error
    try:
        return _resolve(installation, argv, asked, environment, files, legacy_entry=legacy_entry)
    except ModelMissing as error:
        text = (
            f"Incorrect path_or_model_id: '{error.path}'. Please provide either the path to a local folder or the"
            " repo_id of a model on the Hub."
        )
        raise Refusal(1, stderr=preface + _traceback(installation, "OSError", text)) from error
    except ResolutionFailed as error:
        raise Refusal(1, stderr=preface + _traceback(installation, error.kind, error.text)) from error


def _resolve(
    installation: Installation,
    argv: Sequence[str],
    asked: Mapping[str, object],
    environment: Mapping[str, str],
    files: Files,
    *,
    legacy_entry: bool,
) -> Launch:
    model = read_model(str(asked["model_path"]), files)
    heeded = dict(asked)
    if fault := installation.faults.matching(asked, {}).get("flag-ignored"):
        defaults = {flag.dest: flag.default for flag in flags_of(installation.version)}
        heeded = ignore_flags(asked, defaults, fault)
    resolved = resolve(heeded, model, installation.version, environment)
    faults = installation.faults.matching(asked, resolved.arguments)
    if fault := faults.get("wrong-mem-fraction"):
        resolved.arguments["mem_fraction_static"] = fault.number("value", 0.88)
    draft = None
    if resolved.speculation and resolved.speculation != "NGRAM":
        path = resolved.text("speculative_draft_model_path")
        draft = read_model(path, files) if path else model
    return Launch(installation, asked, resolved, model, draft, faults, environment, tuple(argv), legacy_entry)


def read_installation(
    version: Version, prefix: str, environment: Mapping[str, str], files: Files, *, shown_site: str = ""
) -> Installation:
    """Settings and faults from `prefix`, or from where SGLANG_STANDIN_SETTINGS and SGLANG_STANDIN_FAULTS point.

    Raises FaultsInvalid, SettingsInvalid.
    """
    faults = _text(files, environment.get("SGLANG_STANDIN_FAULTS") or f"{prefix}/faults.json")
    settings = _text(files, environment.get("SGLANG_STANDIN_SETTINGS") or f"{prefix}/stand-in.json")
    return Installation(
        version,
        shown_site or f"{prefix}/site",
        parse_settings(settings) if settings else Settings(),
        parse_faults(faults) if faults else Faults(),
    )


def _text(files: Files, path: str) -> str:
    try:
        return files.read(path).decode()
    except FileNotFoundError:
        return ""


def _legacy_warning(installation: Installation) -> str:
    return (
        f"{installation.site}/sglang/launch_server.py:56: UserWarning:"
        " 'python -m sglang.launch_server' is still supported, but 'sglang serve' is the recommended entrypoint.\n"
        "  Example: sglang serve --model-path <model> [options]\n  warnings.warn(\n"
    )


def legacy_warning(launch: Launch) -> str:
    """The warning that 0.5.10 and later print for `python -m sglang.launch_server`; "" where there is none."""
    return _legacy_warning(launch.installation) if launch.legacy_entry and launch.version.warns_of_legacy_entry else ""


def _traceback(installation: Installation, kind: str, text: str) -> str:
    site = installation.site
    return (
        "Traceback (most recent call last):\n"
        f'  File "{site}/sglang/launch_server.py", line 66, in <module>\n'
        "    server_args = prepare_server_args(sys.argv[1:])\n"
        f'  File "{site}/sglang/srt/server_args.py", line 5120, in prepare_server_args\n'
        "    return ServerArgs.from_cli_args(raw_args)\n"
        f"{kind}{': ' + text if text else ''}\n"
    )
