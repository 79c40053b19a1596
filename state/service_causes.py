"""Why a claim about any service may be refuted: likely causes in their order, and what tells one from the others."""

from collections.abc import Iterable, Mapping

from state.claims import Cause, Claim

Causes = Mapping[str, tuple[Cause, ...]]


def causes(*pairs: tuple[str, str]) -> tuple[Cause, ...]:
    return tuple(Cause(cause=cause, check=check) for cause, check in pairs)


def attached(claims: Iterable[Claim], *tables: Causes) -> tuple[Claim, ...]:
    """The claims with the causes that the first table has for their name, or for the kind of their metric
    (`argument.`, `environment.`); a claim's own stay."""
    return tuple(_attached(claim, tables) for claim in claims)


def _attached(claim: Claim, tables: tuple[Causes, ...]) -> Claim:
    names = (claim.name, f"{claim.metric.partition('.')[0]}.")
    known = next((table[name] for name in names for table in tables if name in table), ())
    return claim if claim.causes or not known else claim.model_copy(update={"causes": known})


SERVICE_CAUSES: Causes = {
    "active": causes(
        ("the engine ended after it was ready", "`systemctl status` shows a result and an exit status"),
        ("systemd stopped it: a limit, a watchdog, or a conflict", "the unit's Result is not `success` or `exit-code`"),
        ("the kernel's OOM killer took it", "the kernel log names the process; memory.events counts oom_kill"),
    ),
    "one-start": causes(
        ("somebody, or a configuration tool, restarted it", "the journal names who asked systemd (sudo, a timer)"),
        ("it crashed and Restart= started it again", "NRestarts is above 0"),
    ),
    "no-restart": causes(
        ("the engine crashes in one of its stages", "the first failing start names the stage; later ones repeat it"),
        ("a resource of the old start is still held", "the first failure is out of memory or a port in use"),
    ),
    "argv": causes(
        ("a drop-in overrides ExecStart", "`systemctl cat` shows a file below `UNIT.d/`"),
        ("a wrapper script changes the arguments", "ExecStart names a script, and /proc/PID/cmdline other words"),
        ("systemd runs the old unit", "NeedDaemonReload is yes"),
    ),
    "environment.": causes(
        ("a drop-in or an environment file sets it otherwise", "`systemctl cat`; the later line wins"),
        ("a wrapper clears or overrides it", "ExecStart names a script or `env`"),
    ),
    "port-ours": causes(
        ("an old process outlived its stop", "the holder's start is before this one's, in no unit or in the old one"),
        ("another service uses the port", "the holder's cgroup is another unit's"),
    ),
    "no-strangers": causes(
        ("KillMode=process left children of the old start", "`systemctl show -p KillMode`; the PIDs are re-parented"),
        ("the unit's program runs in a container that the stop does not reach", "the PIDs are in another cgroup"),
    ),
    "gpu-drivers": causes(
        ("the driver refused the device", "the kernel log since the step names the address"),
        ("another tool bound it (a VM's start, driverctl, a udev rule)", "driver_override holds another name"),
    ),
    "kernel-quiet": causes(
        ("the GPU's firmware does not boot (FSP, GSP)", "the code and the IOMMU domain of its group: identity or DMA"),
        ("the card fell off the bus", "Xid 79, and then 154 on others"),
        ("a device of another service failed", "the address is none of this service's"),
    ),
    "requests-answered": causes(
        ("the scheduler is dead or hangs, the HTTP server lives", "its last record is old, and /health answers"),
        ("requests are refused", "the status is 4xx, and the body says why"),
        ("it is overloaded by others' traffic", "the queue in the log is long, and records go on"),
    ),
    "answers": causes(
        ("speculation or quantisation changes what is generated", "the same questions with speculation off"),
        ("the chat template or the reasoning parser does not fit the model", "answers are cut or have markup in them"),
        ("it is another model, or too small a one", "the models endpoint, and the size of the weights loaded"),
    ),
    "not-degenerate": causes(
        ("drafts are accepted that the target would not write", "acceptance is near its maximum while text repeats"),
        ("state is corrupted once a second sequence is in the batch", "only answers at concurrency 2 are degenerate"),
        ("the chat template leaks special tokens", "the tokens are the template's own"),
    ),
    "model-named": causes(
        ("another server answers here", "the process that holds the port is not of the unit"),
        ("served_model_name is set elsewhere", "the effective arguments differ from those asked for"),
    ),
    "json-schema": causes(
        ("no grammar backend is active", "the effective arguments; the answer is prose or JSON in a fence"),
        ("speculation bypasses the grammar in this release", "the same probe with speculation off fits"),
    ),
    "tool-calls": causes(
        ("no tool-call parser, or another model's", "the call stands in the text as markup"),
        ("the chat template does not tell the model of tools", "the answer speaks of having no access"),
    ),
}
