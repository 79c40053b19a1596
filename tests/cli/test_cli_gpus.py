"""A device in quarantine, on the command line: told with the plan, cleared by a person, in the history."""

from pathlib import Path

from tasks.argv import quarantine
from tasks.practice.scene import GUEST_GPUS
from tests.cli.practice import Stage, stage

ADDRESS = GUEST_GPUS[1]


def marked(practice: Stage, rollout: str) -> None:
    async def write() -> None:
        text = f"unbind from nvidia was stuck in rollout {rollout}: no word of the kernel\n"
        practice.scene.hypervisor.files.put(quarantine(ADDRESS), text)

    practice.do(write())


def test_a_quarantine_is_told_with_the_plan_and_cleared_by_a_person(tmp_path: Path) -> None:
    with stage(tmp_path) as practice:
        manifest = practice.manifest()
        marked(practice, "abc123")
        before = practice.facts()
        planned = practice.interlock("plan", manifest)
        told = (
            f"gpus: {ADDRESS} is quarantined on hypervisor (unbind from nvidia was stuck in rollout abc123: no word of "
            f"the kernel); when it is well again, `interlock gpu clear abc123 {ADDRESS}` clears it"
        )
        assert planned.code == 3
        assert f"move {ADDRESS} from nvidia to vfio-pci" in planned.out
        assert planned.err.startswith(f"error: {told}\n")
        in_json = practice.interlock("plan", manifest, "--json")
        assert (in_json.code, in_json.json["refusals"]) == (3, [told])
        applied = practice.interlock("apply", manifest, "--bare", "--json")
        assert (applied.code, applied.json["outcome"], applied.json["error"]["message"]) == (3, "refused", told)
        after = practice.facts()
        assert (after.main_pid, after.unit_file, after.drivers) == (before.main_pid, before.unit_file, before.drivers)

        rollout = applied.json["rollout"]
        unknown = practice.interlock("gpu", "clear", "abc123", ADDRESS)
        assert (unknown.code, unknown.err.splitlines()[0]) == (2, "error: There is no rollout `abc123`")
        marked(practice, rollout)
        cleared = practice.interlock("gpu", "clear", rollout[:6], ADDRESS, "--reason", "rebooted it")
        assert (cleared.code, cleared.err) == (0, "")
        assert cleared.out == f"{ADDRESS} on hypervisor is quarantined no longer\n"
        again = practice.interlock("gpu", "clear", rollout, ADDRESS, "--json")
        assert (again.code, again.json["error"]["code"]) == (2, "not-found")
        shown = practice.interlock("show", rollout).out
        assert "gpu clear" in shown
        assert "is quarantined no longer" in shown
        assert practice.interlock("plan", manifest).code == 0
