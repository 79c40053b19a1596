"""Claims that hold of a service whatever it was asked for: its identity, its devices, and that it answers."""

from collections.abc import Iterator
from functools import partial

from state import contracts, keyless
from state.claims import Claim
from state.target import Target


def identity(target: Target) -> Iterator[Claim]:
    claim = partial(Claim, plane="identity", relation="equals")
    yield claim(
        name="active",
        statement=f"{target.unit} is active",
        metric="unit.state",
        expected="active",
        source="systemctl show",
        remedy=f"see `systemctl status {target.unit}`",
    )
    yield claim(
        name="one-start",
        statement="it is still the start that was made",
        metric="unit.same_start",
        expected=True,
        source="systemctl show",
        remedy="somebody or something restarted the service meanwhile",
    )
    yield claim(
        name="no-restart",
        statement="it has not restarted",
        metric="unit.restarts",
        expected=0,
        source="systemctl show",
        remedy="read the first failing start in the journal",
    )
    yield claim(
        name="argv",
        statement="the running process has the arguments of the revision",
        metric="process.argv",
        expected=list(target.argv),
        source="/proc/PID/cmdline",
        remedy="a drop-in or a wrapper changes ExecStart: see `systemctl cat`",
    )
    yield from _undisturbed(target)


def _undisturbed(target: Target) -> Iterator[Claim]:
    claim = partial(Claim, plane="identity", relation="equals")
    yield claim(
        name="port-ours",
        statement=f"nobody else answers on {target.endpoint}",
        metric="port.ours",
        expected=True,
        source="ss and the cgroup",
        remedy="another process holds the port: stop it, or choose another port",
    )
    yield claim(
        name="no-strangers",
        statement="no older process writes into this start's journal",
        metric="journal.strangers",
        expected=0,
        source="journal",
        remedy="an old process outlived its stop: end it, and set KillMode=control-group",
    )


def environment(target: Target) -> Iterator[Claim]:
    """The variables that the manifest sets are the running process's."""
    for name, value in target.environment.items():
        yield Claim(
            name=f"environment-{name}",
            plane="control",
            statement=f"{name}={value} is in the process's environment",
            metric=f"environment.{name}",
            relation="equals",
            expected=value,
            source="/proc/PID/environ",
            remedy="a drop-in or an environment file sets it otherwise, or a wrapper clears it: see `systemctl cat`",
        )


def devices(target: Target) -> Iterator[Claim]:
    claim = partial(Claim, plane="resource", relation="equals")
    if target.drivers:
        yield claim(
            name="gpu-drivers",
            statement=f"{len(target.drivers)} GPUs are on the drivers of the map",
            metric="gpu.drivers",
            expected=dict(target.drivers),
            source="sysfs",
            remedy="see `journalctl -k` on the GPU host for what the kernel refused",
        )
    yield claim(
        name="kernel-quiet",
        statement="the kernel reported no fault since the start",
        metric="kernel.faults",
        expected=0,
        source="kernel log and memory.events",
        remedy="read the first fault, later ones follow from it: `interlock inspect --kind kernel`",
    )


def function(target: Target) -> Iterator[Claim]:
    claim = partial(Claim, plane="function")
    yield claim(
        name="requests-answered",
        statement="every request of ours is answered",
        metric="requests.failed",
        relation="equals",
        expected=0,
        source="our own requests",
        remedy="it answers HTTP, but not requests: the scheduler hangs or is overloaded; "
        "see its last record and the Xids",
    )
    yield claim(
        name="answers",
        statement="questions with checkable answers are answered rightly, also two at a time and streamed",
        metric="answers.right",
        relation="at-least",
        expected=0.75,
        minimum_sample=8,
        source="our own requests",
        remedy="the model answers, but wrongly: compare with speculation off, "
        "and check the chat template and quantisation",
    )
    yield claim(
        name="not-degenerate",
        statement="no answer is degenerate",
        metric="answers.degenerate",
        relation="equals",
        expected=0,
        minimum_sample=4,
        source="our own requests",
        remedy="repetition or garbage in the answers: compare with speculation off; "
        "a high acceptance is no merit by itself",
    )
    yield claim(
        name="model-named",
        statement="the models endpoint names the model",
        metric="models.named",
        relation="equals",
        expected=True,
        source="/v1/models",
        remedy="another server or another model answers here",
    )
    yield from contracts.claims(target.offers)
    yield from keyless.claims(target)
