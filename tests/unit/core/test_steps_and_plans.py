"""Steps and their inverses, and plans as the difference between what is wanted and what was observed."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from core_samples import (
    GPUS,
    NEW_ARGV,
    OLD,
    OLD_ARGV,
    PATH,
    PORT,
    UNIT,
    file,
    gpus,
    observation,
    plan,
    revision,
    unit,
)
from core_world import Model, apply, model_of
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from state.boot_rules import boot_change, path_of, rules
from state.canonical import sha256_hex
from state.observation import Observation
from state.plan import Plan, driver_moves, file_changes, restart_reason, steps_between
from state.plan_text import describe
from state.revision import FileContent, Policy, Revision, StopPolicy
from state.steps import ArmTimer, DriverMove, FileChange, FileState, InstallFiles, Step, StopService

ADAPTER: TypeAdapter[Step] = TypeAdapter(Step)
PATHS = ("/etc/systemd/system/a.service", "/etc/a.env", "/etc/b.conf")
drivers = st.sampled_from(["nvidia", "vfio-pci", None])
contents = st.sampled_from(["one\n", "two\n", "drei ü\n"])
modes = st.sampled_from([0o600, 0o644, 0o755])
owners = st.sampled_from(["root", "sglang"])

file_states = st.builds(
    FileState, path=st.sampled_from(PATHS), digest=st.none() | st.text("0123456789abcdef", min_size=64, max_size=64),
    mode=modes, owner=owners, group=owners,
)  # fmt: skip
changes = st.lists(st.builds(FileChange, before=file_states, after=file_states), max_size=3).map(tuple)
moves = st.lists(st.builds(DriverMove, address=st.sampled_from(GPUS), before=drivers, after=drivers), max_size=3).map(
    tuple
)
texts = st.dictionaries(st.just("0" * 64), st.text(max_size=20), max_size=1)
named = st.fixed_dictionaries({"host": st.sampled_from(["a", "b"]), "service": st.just("qwen")})
timers = st.fixed_dictionaries(
    {"deadline_s": st.floats(1, 1e5), "unit": st.just(UNIT), "start": st.booleans(), "files": changes, "moves": moves}
)
services = st.fixed_dictionaries(
    {
        "host": st.sampled_from(["a", "b"]), "unit": st.just(UNIT), "port": st.integers(1, 65535),
        "drain_s": st.floats(0, 60), "timeout_s": st.floats(0, 600), "leftovers": st.sampled_from(["refuse", "kill"]),
    }
)  # fmt: skip
BY_KIND: dict[str, st.SearchStrategy[dict[str, object]]] = {
    "stage-files": st.builds(lambda a, c, t: {**a, "changes": c, "texts": t}, named, changes, texts),
    "discard-staged": st.builds(lambda a, c, t: {**a, "changes": c, "texts": t}, named, changes, texts),
    "arm-timer": st.builds(lambda a, t: {**a, **t}, named, timers),
    "disarm-timer": st.builds(lambda a, t: {**a, **t}, named, timers),
    "stop-service": services,
    "start-service": services,
    "rebind-gpus": st.builds(lambda m: {"host": "a", "moves": m}, moves),
    "install-files": st.builds(lambda a, c: {**a, "unit": UNIT, "changes": c}, named, changes),
}
steps = st.sampled_from(sorted(BY_KIND)).flatmap(
    lambda kind: BY_KIND[kind].map(lambda fields: ADAPTER.validate_python({"kind": kind, **fields}))
)


@given(steps)
def test_the_inverse_of_the_inverse_is_the_step(step: Step) -> None:
    assert step.inverse().inverse() == step
    assert step.inverse().role == step.role
    assert step.inverse().host == step.host


@given(steps)
def test_a_step_is_the_same_after_it_was_stored(step: Step) -> None:
    assert ADAPTER.validate_json(ADAPTER.dump_json(step)) == step


def test_every_kind_of_step_is_covered() -> None:
    assert set(BY_KIND) == {"stage-files", "discard-staged"} | {s.kind for s in plan().steps} | {"disarm-timer"}


revisions = st.builds(
    lambda files, modes_, owner, argv, wanted, persist: revision(
        files=tuple(
            FileContent(path=p, content=c, mode=m, owner=owner) for p, c, m in zip(PATHS, files, modes_, strict=True)
        ),
        argv=argv,
        drivers={a: d for a, d in zip(GPUS, wanted, strict=True) if d},
        persist=persist,
    ),
    st.tuples(contents, contents, contents),
    st.tuples(modes, modes, modes),
    owners,
    st.sampled_from([NEW_ARGV, OLD_ARGV]),
    st.tuples(drivers, drivers),
    st.sampled_from(["none", "boot"]),
)
observations = st.builds(
    lambda files, modes_, owner, argv, bound, active, reload, boot: observation(
        files=tuple(
            file(c, path=p, mode=m if c else None, owner=owner if c else None, group="root" if c else None)
            for p, c, m in zip(PATHS, files, modes_, strict=True)
        ),
        argv=argv if active else None,
        gpus=gpus(*bound),
        unit=unit(active_state="active" if active else "inactive", need_daemon_reload=reload),
        boot=file(boot, path=path_of("qwen")),
    ),
    st.tuples(*[st.none() | contents] * 3),
    st.tuples(modes, modes, modes),
    owners,
    st.sampled_from([NEW_ARGV, OLD_ARGV]),
    st.tuples(drivers, drivers),
    st.booleans(),
    st.booleans(),
    st.none() | st.sampled_from(["of somebody\n", rules("qwen", GPUS[:1])]),
)


def run(model: Model, todo: Sequence[Step]) -> Model:
    for step in todo:
        model = apply(model, step)
    return model


def undone(model: Model, begun: Sequence[Step]) -> Model:
    return run(model, [step.inverse() for step in reversed(begun)])


@given(revisions, observations)
def test_a_plan_reaches_what_is_wanted(desired: Revision, observed: Observation) -> None:
    made = plan(desired, observed)
    if not made.steps:
        return
    after = run(model_of(observed, made), made.steps)
    for wanted in desired.files:
        if wanted.path in after.files:
            assert after.files[wanted.path].digest == wanted.digest
    assert {a: d for a, d in after.drivers.items() if a in desired.drivers} == desired.drivers
    assert after.running == after.files
    for path, state in after.boot.items():
        text = rules("qwen", [a for a, d in desired.drivers.items() if d == "vfio-pci"])
        wanted = sha256_hex(text.encode()) if text and desired.persist == "boot" else None
        assert (path, state.digest) == (path_of("qwen"), wanted)


@given(revisions, observations, st.data())
def test_undone_from_anywhere_a_plan_leaves_everything_as_it_was(
    desired: Revision, observed: Observation, data: st.DataObject
) -> None:
    """Also when the last step began and did nothing: its inverse must tolerate never having been needed."""
    made = plan(desired, observed)
    start = model_of(observed, made)
    begun = made.steps[: data.draw(st.integers(0, len(made.steps)))]
    effective = begun[:-1] if data.draw(st.booleans()) else begun
    assert undone(run(start, effective), begun) == start


@given(revisions, observations)
def test_every_step_may_be_repeated(desired: Revision, observed: Observation) -> None:
    made = plan(desired, observed)
    model = model_of(observed, made)
    for step in made.steps:
        model = apply(model, step)
        assert apply(model, step) == model


@given(revisions)
def test_equal_states_give_no_step(desired: Revision) -> None:
    seen = tuple(file(f.content, path=f.path, mode=f.mode, owner=f.owner, group=f.group) for f in desired.files)
    bound = gpus(*(desired.drivers.get(a) for a in GPUS))
    kept = [a for a, d in desired.drivers.items() if d == "vfio-pci" and desired.persist == "boot"]
    boot = file(rules("qwen", kept), path=path_of("qwen"))
    assert steps_between(desired, observation(files=seen, argv=desired.argv, gpus=bound, boot=boot), PORT) == ()


@given(revisions, observations)
def test_guards_come_before_the_outage_and_the_start_is_last(desired: Revision, observed: Observation) -> None:
    roles = [s.role for s in steps_between(desired, observed, PORT)]
    assert roles == sorted(roles)
    kinds = [s.kind for s in steps_between(desired, observed, PORT)]
    if kinds:
        assert kinds[-1] == "start-service" or kinds == ["stage-files", "arm-timer", "install-files"]
        assert "arm-timer" in kinds


@given(revisions, observations)
def test_the_timer_restores_what_the_inverses_restore(desired: Revision, observed: Observation) -> None:
    made = steps_between(desired, observed, PORT)
    for timer in (s for s in made if isinstance(s, ArmTimer)):
        assert timer.files == (*file_changes(desired, observed), *boot_change(desired, observed))
        assert timer.moves == driver_moves(desired, observed)
        stops = any(isinstance(s, StopService) for s in made)
        assert timer.start == stops == (observed.unit.active and bool(timer.unit))


@pytest.mark.parametrize(
    ("observed", "kinds"),
    [
        pytest.param(observation(), [], id="nothing differs"),
        pytest.param(
            OLD,
            ["stage-files", "arm-timer", "stop-service", "rebind-gpus", "install-files", "start-service"],
            id="everything differs",
        ),
        pytest.param(
            observation(files=(file("old\n"),)),
            ["stage-files", "arm-timer", "stop-service", "install-files", "start-service"],
            id="content",
        ),
        pytest.param(
            observation(files=(file("new\n", mode=0o600),)),
            ["stage-files", "arm-timer", "stop-service", "install-files", "start-service"],
            id="mode alone",
        ),
        pytest.param(
            observation(files=(file("new\n", owner="sglang"),)),
            ["stage-files", "arm-timer", "stop-service", "install-files", "start-service"],
            id="owner alone",
        ),
        pytest.param(
            observation(argv=OLD_ARGV), ["arm-timer", "stop-service", "start-service"], id="arguments of the process"
        ),
        pytest.param(
            observation(unit=unit(need_daemon_reload=True)),
            ["arm-timer", "stop-service", "install-files", "start-service"],
            id="a unit file that systemd has not read",
        ),
        pytest.param(
            observation(gpus=gpus("nvidia", None)),
            ["arm-timer", "stop-service", "rebind-gpus", "start-service"],
            id="a GPU without a driver",
        ),
        pytest.param(
            observation(unit=unit(active_state="failed"), argv=None),
            ["arm-timer", "start-service"],
            id="a dead service",
        ),
        pytest.param(
            observation(unit=unit(active_state="inactive", load_state="not-found"), files=(), argv=None),
            ["stage-files", "arm-timer", "install-files", "start-service"],
            id="a service that was never there",
        ),
        pytest.param(
            observation(unit=unit(active_state="activating", sub_state="auto-restart"), argv=None),
            ["arm-timer", "stop-service", "start-service"],
            id="a service that crashes and starts again",
        ),
    ],
)
def test_each_difference_gives_its_steps(observed: Observation, kinds: list[str]) -> None:
    assert [s.kind for s in steps_between(revision(), observed, PORT)] == kinds


def test_the_steps_carry_what_they_need() -> None:
    desired = revision(stop=StopPolicy(drain_s=60, timeout_s=120, leftovers="kill"), policy=Policy(timer_s=77))
    by_kind = {s.kind: s for s in steps_between(desired, OLD, 30001)}
    stop, timer = by_kind["stop-service"], by_kind["arm-timer"]
    assert isinstance(stop, StopService)
    assert isinstance(timer, ArmTimer)
    assert (stop.port, stop.drain_s, stop.timeout_s, stop.leftovers) == (30001, 60, 120, "kill")
    assert (timer.deadline_s, timer.start, timer.unit) == (77, True, UNIT)


def test_gpus_on_another_host_have_a_timer_of_their_own_that_comes_later() -> None:
    steps_ = steps_between(revision(gpu_host="hypervisor"), OLD, PORT)
    timer, gpus_ = [s for s in steps_ if isinstance(s, ArmTimer)]
    assert (timer.host, timer.moves) == ("serving", ())
    assert (gpus_.host, gpus_.unit, gpus_.files, gpus_.start) == ("hypervisor", "", (), False)
    assert gpus_.moves == next(s.moves for s in steps_ if s.kind == "rebind-gpus")
    assert (gpus_.service, gpus_.deadline_s) == (f"{timer.service}:gpus", timer.deadline_s + 20)
    assert [s.host for s in steps_ if s.kind == "rebind-gpus"] == ["hypervisor"]


def test_gpus_that_leave_the_serving_driver_go_first() -> None:
    desired = revision(drivers={GPUS[0]: "nvidia", GPUS[1]: "vfio-pci"})
    seen = driver_moves(desired, observation(gpus=gpus("vfio-pci", "nvidia")))
    assert [(m.address, m.after) for m in seen] == [(GPUS[1], "vfio-pci"), (GPUS[0], "nvidia")]


def test_a_new_file_is_removed_by_its_inverse() -> None:
    (change,) = file_changes(revision(), observation(files=()))
    assert (change.before.digest, change.reversed().after.digest) == (None, None)
    assert change.before.path == PATH


@pytest.mark.parametrize(
    ("observed", "reason"),
    [
        pytest.param(observation(), "", id="runs as wanted"),
        pytest.param(observation(unit=unit(active_state="failed")), "sglang.service is failed", id="failed"),
        pytest.param(observation(unit=unit(active_state="")), "sglang.service is not loaded", id="unknown to systemd"),
        pytest.param(
            observation(unit=unit(need_daemon_reload=True)),
            "systemd has not read the unit file since it changed",
            id="daemon-reload",
        ),
        pytest.param(observation(argv=("/usr/bin/python3", "-S", *NEW_ARGV[1:])), "", id="runs behind a wrapper"),
        pytest.param(
            observation(argv=OLD_ARGV), "the running process was started with other arguments", id="arguments"
        ),
    ],
)
def test_why_a_start_is_needed(observed: Observation, reason: str) -> None:
    assert restart_reason(revision(), observed) == reason


def test_a_plan_is_told_step_by_step() -> None:
    told = describe(steps_between(revision(), OLD, PORT), "because")
    assert told == (
        f"upload {PATH} beside the old and read back by SHA-256",
        "arm the timer on serving that restores the old state after 300 s without renewal",
        f"stop {UNIT} and prove that nothing of it is left",
        f"move {GPUS[0]} from vfio-pci to nvidia",
        f"replace {PATH}; systemctl daemon-reload",
        f"start {UNIT} (because)",
    )


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        pytest.param(None, "a" * 64, f"create {PATH}; systemctl daemon-reload", id="create"),
        pytest.param("a" * 64, None, f"remove {PATH}; systemctl daemon-reload", id="remove"),
        pytest.param("a" * 64, "b" * 64, f"replace {PATH}; systemctl daemon-reload", id="replace"),
    ],
)
def test_how_a_file_changes(before: str | None, after: str | None, said: str) -> None:
    change = FileChange(before=FileState(path=PATH, digest=before), after=FileState(path=PATH, digest=after))
    step = InstallFiles(host="serving", service="qwen", unit=UNIT, changes=(change,))
    assert describe([step], "") == (said,)


def test_the_digest_is_stable_and_leaves_the_estimate_out() -> None:
    made = plan()
    assert Plan.model_validate_json(made.model_dump_json()).digest == made.digest
    assert made.model_copy(update={"dark_s": 41.0, "dark_basis": "rollout 7"}).digest == made.digest


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"steps": ()}, id="steps"),
        pytest.param({"claims": ()}, id="claims"),
        pytest.param({"previous_claims": ()}, id="the old revision's claims"),
        pytest.param({"observed": "0" * 64}, id="the observation"),
        pytest.param({"revision": "0" * 64}, id="the revision"),
        pytest.param({"previous": None}, id="what runs now"),
        pytest.param({"previous_good": False}, id="whether it ran well"),
        pytest.param({"unchanged": "why not"}, id="why there is nothing to do"),
    ],
)
def test_the_digest_takes_in_all_else(change: dict[str, object]) -> None:
    assert plan().model_copy(update=change).digest != plan().digest


@pytest.mark.parametrize(
    "same",
    [
        pytest.param({"main_pid": 7}, id="another PID"),
        pytest.param({"invocation": "f" * 32}, id="another invocation"),
        pytest.param({"restarts": 3}, id="restarts"),
        pytest.param({"sub_state": "running"}, id="a sub-state"),
    ],
)
def test_what_changes_by_itself_makes_no_plan_stale(same: dict[str, object]) -> None:
    assert observation(unit=unit(**same)).digest == observation().digest


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(observation(files=(file("old\n"),)), id="content"),
        pytest.param(observation(files=(file("new\n", mode=0o600),)), id="mode"),
        pytest.param(observation(argv=OLD_ARGV), id="arguments"),
        pytest.param(observation(gpus=gpus("vfio-pci", "nvidia")), id="a driver"),
        pytest.param(observation(unit=unit(active_state="failed")), id="whether it runs"),
        pytest.param(observation(unit=unit(drop_ins=("/etc/systemd/system/x.d/y.conf",))), id="a drop-in"),
        pytest.param(observation(unit=unit(need_daemon_reload=True)), id="an unread unit file"),
        pytest.param(observation(unit=unit(fragment="/run/systemd/system/x")), id="another unit file"),
        pytest.param(observation(unit_text="[Service]\nNice=5\n"), id="what a drop-in says"),
    ],
)
def test_what_the_plan_rests_on_makes_it_stale(other: Observation) -> None:
    assert other.digest != observation().digest


def test_the_model_tells_a_change_from_none() -> None:
    made = plan()
    start = model_of(OLD, made)
    assert replace(start, running=None) != start
    assert run(start, made.steps) != start
