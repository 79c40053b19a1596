"""A report as a page that an operator understands at once: verdict first, then the evidence."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from state.inspection.engines import remedy
from state.inspection.report import (
    AnswerReport,
    Boot,
    Entry,
    KernelReport,
    LogReport,
    MetricsReport,
    Report,
    ServerInfoReport,
    Speculation,
    UnitReport,
)

_COLOURS = {"ready": "green", "starting": "yellow", "failed": "red", "stopped": "blue"}
_STATES = {
    "active": "[green]active[/]: drafts are accepted",
    "useless": "[red]useless[/]: drafts are made and none is accepted",
    "off": "off",
    "configured": "[yellow]configured[/], without acceptance figures so far",
    "not-applicable": "not applicable: a prefill server decodes nothing",
    None: "unknown",
}
_TELLING = (
    "model_path",
    "model",
    "tp_size",
    "tensor_parallel_size",
    "dp_size",
    "pp_size",
    "port",
    "mem_fraction_static",
    "gpu_memory_utilization",
    "max_running_requests",
    "max_num_seqs",
    "context_length",
    "max_model_len",
    "attention_backend",
    "quantization",
    "kv_cache_dtype",
    "disable_overlap_schedule",
    "disable_radix_cache",
    "disable_cuda_graph",
    "enforce_eager",
    "mamba_scheduler_strategy",
    "mamba_radix_cache_strategy",
    "speculative_draft_model_path",
    "speculative_config",
)
"""Arguments that are shown of the hundreds that an engine prints; `--json` has them all."""


def print_page(report: Report, file: str) -> None:
    """Print the report to standard output, without colours where it is no terminal."""
    console = Console(highlight=False, soft_wrap=True)
    for line in page(report, file):
        console.print(line)


def page(report: Report, file: str) -> Iterable[Any]:
    match report:
        case LogReport():
            return _log(report, file)
        case KernelReport():
            return _kernel(report, file)
        case UnitReport():
            return _unit(report, file)
        case MetricsReport():
            return [
                f"[bold]{escape(file)}[/]: metrics of {report.engine or 'an unknown engine'}",
                f"  running {_figure(report.running)}, queued {_figure(report.queued)}",
                *_speculation(report.speculation),
            ]
        case ServerInfoReport():
            return _server_info(report, file)
        case AnswerReport():
            return _answer(report, file)


def _log(report: LogReport, file: str) -> list[Any]:
    engine = report.engine or "an unknown engine"
    count = len(report.boots)
    lines: list[Any] = [f"[bold]{escape(file)}[/]: log of {engine}, {count} boot{'s' if count != 1 else ''}"]
    if report.boots:
        lines.insert(0, _verdict(report.boots[-1]))
    for number, boot in enumerate(report.boots, 1):
        lines += ["", _heading(number, boot), *_boot(boot, report.engine)]
    return lines


def _verdict(boot: Boot) -> str:
    colour = _COLOURS.get(boot.outcome or "", "yellow")
    because = f": {boot.failures[0].code}" if boot.failures else ""
    state = boot.speculation.state
    about = f", speculation {state}" if state else ", speculation unknown"
    return f"[bold {colour}]{(boot.outcome or 'outcome unknown').upper()}[/][bold]{because}{about}[/]"


def _heading(number: int, boot: Boot) -> str:
    pids = f", PID {', '.join(map(str, boot.pids[:6]))}" if boot.pids else ""
    version = f", version {boot.version}" if boot.version else ""
    role = f", {boot.role}" if boot.role and boot.role != "unified" else ""
    state = f"{boot.outcome or 'outcome unknown'}, stage {boot.stage or 'unknown'}"
    return f"[bold]Boot {number}[/]: {state}{role}{escape(pids + version)}"


def _boot(boot: Boot, engine: str | None) -> Iterable[Any]:
    yield from _entries("Failures", boot.failures, "red", engine)
    yield from _speculation(boot.speculation)
    if boot.throughput:
        t = boot.throughput
        yield f"  throughput  {t.gen_mean:.1f} tokens/s mean, {t.gen_max:.1f} at most ({t.samples} records)"
    if boot.queue:
        running, queued = _figure(boot.queue.running_max), _figure(boot.queue.queued_max)
        yield f"  queue       at most {running} running, {queued} waiting"
    for weight in boot.weights[:16]:
        size = f"{weight.gb:.2f} GB" if weight.gb is not None else "size unknown"
        yield f"  weights     {escape(weight.class_)} ({weight.role}{' ' + weight.rank if weight.rank else ''}), {size}"
    yield from _arguments(boot.arguments)
    for adjustment in boot.adjustments:
        yield f"  changed     {adjustment.code}: {escape(adjustment.text)}"
    yield from _entries("Notices", boot.notices, "yellow", None)


def _entries(title: str, entries: Iterable[Entry], colour: str, engine: str | None) -> Iterable[Any]:
    for index, entry in enumerate(entries):
        label = f"{title.lower():<11}" if index == 0 else " " * 11
        times = f", {entry.count} lines" if entry.count > 1 else ""
        yield f"  {label} [{colour}]{entry.code}[/] (line {entry.line}{times}) {escape(entry.text)}"
        advice = remedy(engine, entry.code) if title == "Failures" else ""
        if advice:
            yield f"              → {escape(advice)}"


def _speculation(spec: Speculation) -> Iterable[str]:
    yield f"  speculation {spec.algorithm or 'algorithm unknown'}, {_STATES[spec.state]}"
    setup = [
        f"{name} {value}"
        for name, value in (("steps", spec.num_steps), ("topk", spec.topk), ("draft tokens", spec.num_draft_tokens))
        if value is not None
    ]
    if setup:
        yield f"              {', '.join(setup)}"
    if spec.accept_length:
        length = spec.accept_length
        spread = (
            f", {length.min:.2f} to {length.max:.2f}, last {length.last:.2f}"
            if length.min is not None and length.max is not None and length.last is not None
            else ""
        )
        samples = f"{spec.samples} sample{'s' if spec.samples != 1 else ''}"
        yield f"              accept length {length.mean:.2f}{spread} ({samples})"
    if spec.accept_rate:
        yield f"              accept rate {spec.accept_rate.mean:.1%} ({spec.accept_rate.definition})"
    if spec.drafted_tokens is not None:
        yield f"              {_figure(spec.accepted_tokens)} of {spec.drafted_tokens} drafted tokens accepted"


def _arguments(arguments: Mapping[str, Any] | None) -> Iterable[Any]:
    if arguments is None:
        yield "  arguments   not seen"
        return
    shown = {name: arguments[name] for name in _TELLING if arguments.get(name) not in (None, "")}
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    for name, value in shown.items():
        table.add_row("             ", escape(name), escape(str(value)[:100]))
    yield f"  arguments   {len(arguments)} seen, of which"
    yield table


def _kernel(report: KernelReport, file: str) -> list[Any]:
    verdict = (
        f"[bold red]{len(report.faults)} FAULT{'S' if len(report.faults) != 1 else ''}[/]"
        if report.faults
        else "[bold green]NO FAULT[/]"
    )
    lines: list[Any] = [verdict, f"[bold]{escape(file)}[/]: kernel log"]
    for fault in report.faults:
        times = f", {fault.count} lines" if fault.count > 1 else ""
        lines.append(
            f"  [red]{fault.code}[/] {fault.device or 'device unknown'} (line {fault.line}{times}) {escape(fault.text)}"
        )
    return lines


def _unit(report: UnitReport, file: str) -> list[Any]:
    errors = sum(finding.severity == "error" for finding in report.findings)
    verdict = f"[bold red]{errors} ERROR{'S' if errors != 1 else ''}[/]" if errors else "[bold green]NO ERROR[/]"
    warnings = len(report.findings) - errors
    lines: list[Any] = [
        f"{verdict}, {warnings} warning{'s' if warnings != 1 else ''}",
        f"[bold]{escape(file)}[/]: unit for {report.engine or 'an unknown engine'}",
    ]
    for finding in report.findings:
        colour = "red" if finding.severity == "error" else "yellow"
        lines.append(f"  [{colour}]{finding.code}[/] (line {finding.line}, {finding.directive}) {escape(finding.text)}")
    lines += [f"  runs        {escape(' '.join(argv))}" for argv in report.unit.exec_start]
    return lines


def _server_info(report: ServerInfoReport, file: str) -> list[Any]:
    lines: list[Any] = [
        f"[bold]{escape(file)}[/]: server info of {report.engine}, version {report.version or 'unknown'}"
    ]
    lines += _speculation(report.speculation)
    for name, (asked, effective) in report.effective_differs.items():
        lines.append(f"  differs     {escape(name)}: asked {escape(str(asked))}, in effect {escape(str(effective))}")
    lines += _arguments(report.arguments)
    memory = report.memory
    lines.append(f"  memory      weights {_figure(memory.weights_gb)} GB, KV {_figure(memory.kv_gb)} GB")
    return lines


def _answer(report: AnswerReport, file: str) -> list[Any]:
    degenerate = {
        True: "[bold red]DEGENERATE[/]",
        False: "[bold green]PLAUSIBLE[/]",
        None: "[bold yellow]TOO SHORT TO SAY[/]",
    }
    spec = report.speculation
    length = f", accept length {spec.accept_length.mean:.2f}" if spec.accept_length else ""
    return [
        degenerate[report.degenerate],
        f"[bold]{escape(file)}[/]: answer of {report.engine or 'an unknown engine'}",
        f"  tokens      {_figure(report.completion_tokens)}, finished by {report.finish_reason or 'unknown'}",
        f"  speculation {spec.state or 'unknown'}{length}, {_figure(spec.verify_calls)} verify calls",
    ]


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:g}"
