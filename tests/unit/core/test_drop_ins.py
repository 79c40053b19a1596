"""What a drop-in says against a rendered unit, and where systemd looks for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.drop_ins import drop_in_folders, in_force, overridden, template_of
from state.unit_file import ServiceUnit, render_unit

UNIT = "sglang-qwen.service"
TEXT = render_unit(
    ServiceUnit(
        description="SGLang",
        argv=("/opt/sglang/bin/python", "-m", "sglang.launch_server"),
        user="sglang",
        environment={"NCCL_P2P_DISABLE": "1", "WORDS": 'two words, 100% "sure"'},
        environment_files=("/etc/interlock/qwen.env",),
        stop_timeout_s=90,
        properties={"LimitNOFILE": "1048576"},
    )
)

DROP_INS = [
    pytest.param("[Service]\nNice=5\n", (), id="another-directive"),
    pytest.param("[Service]\nLimitMEMLOCK=infinity\n", (), id="another-limit"),
    pytest.param("[Service]\nEnvironment=HF_HOME=/shared/hf\n", (), id="another-variable"),
    pytest.param("[Service]\nEnvironment=NCCL_P2P_DISABLE=1\n", (), id="the-same-value"),
    pytest.param(
        '[Service]\nEnvironment="WORDS=two words, 100%% \\"sure\\""\n', (), id="the-same-value-quoted-otherwise"
    ),
    pytest.param("[Service]\nLimitNOFILE=1048576\n", (), id="the-same-limit"),
    pytest.param("[Unit]\nAfter=nfs.mount\nDescription=Mine\n", (), id="order-and-words"),
    pytest.param("# ExecStart=/bin/true\n[Service]\n;User=x\n", (), id="comments"),
    pytest.param("", (), id="nothing"),
    pytest.param("[Service]\nExecStart=/bin/true\n", ("ExecStart",), id="a-second-program"),
    pytest.param("[Service]\nExecStart=\n", ("ExecStart",), id="no-program"),
    pytest.param("[Service]\n ExecStart = \\\n  /bin/true\n", ("ExecStart",), id="on-two-lines"),
    pytest.param("[Service]\nUser=nobody\nKillMode=process\n", ("User", "KillMode"), id="two-at-once"),
    pytest.param("[Service]\nUser=\n", ("User",), id="no-user"),
    pytest.param("[Service]\nEnvironment=A=1 NCCL_P2P_DISABLE=0\n", ("Environment=NCCL_P2P_DISABLE",), id="variable"),
    pytest.param("[Service]\nEnvironment=\n", ("Environment",), id="no-variables"),
    pytest.param("[Service]\nUnsetEnvironment=WORDS X\n", ("Environment=WORDS",), id="a-variable-unset"),
    pytest.param("[Service]\nEnvironmentFile=-/etc/x\n", ("EnvironmentFile",), id="one-more-file"),
    pytest.param("[Service]\nEnvironmentFile=\n", ("EnvironmentFile",), id="no-file"),
    pytest.param("[Service]\nTimeoutSec=5\n", ("TimeoutStopSec",), id="another-name-for-it"),
    pytest.param("[Service]\nLimitNOFILE=1024\n", ("LimitNOFILE",), id="a-limit-of-the-manifest"),
]


@pytest.mark.parametrize(("drop_in", "told"), DROP_INS)
def test_only_what_the_unit_sets_can_be_overridden(drop_in: str, told: tuple[str, ...]) -> None:
    assert overridden(UNIT, TEXT, drop_in) == told


@given(
    st.dictionaries(
        st.from_regex(r"\A[A-Z]{1,8}\Z"),
        st.text(st.characters(codec="ascii", min_codepoint=32, max_codepoint=126), max_size=20),
        min_size=1,
    )
)
def test_a_unit_s_own_variables_override_nothing_of_it(environment: dict[str, str]) -> None:
    unit = ServiceUnit(description="d", argv=("/bin/x",), user="u", environment=environment, stop_timeout_s=1)
    text = render_unit(unit)
    again = "\n".join(line for line in text.splitlines() if not line.startswith("ExecStart="))
    assert overridden(UNIT, text, again) == ()
    name, value = next(iter(environment.items()))
    other = render_unit(unit.model_copy(update={"environment": {name: value + "x"}}))
    lines = [line for line in other.splitlines() if line.startswith(("[Service]", "Environment="))]
    assert overridden(UNIT, text, "\n".join(lines)) == (f"Environment={name}",)


PLACES = [
    pytest.param("a.service", ["a.service", "service"], id="plain"),
    pytest.param("a-b-c.service", ["a-b-c.service", "a-b-.service", "a-.service", "service"], id="dashes"),
    pytest.param("a@1.service", ["a@1.service", "a@.service", "service"], id="instance"),
]


@pytest.mark.parametrize(("unit", "names"), PLACES)
def test_the_strongest_folder_comes_first(unit: str, names: list[str]) -> None:
    etc = [folder for folder in drop_in_folders(unit) if folder.startswith("/etc/systemd/system/")]
    assert etc == [f"/etc/systemd/system/{name}.d" for name in names]


def test_files_are_read_by_name_and_one_hides_its_namesakes() -> None:
    found = ["/etc/a.d/20.conf", "/etc/a.d/10.conf", "/usr/a.d/10.conf", "/usr/a.d/30.conf"]
    assert in_force(found) == ("/etc/a.d/10.conf", "/etc/a.d/20.conf", "/usr/a.d/30.conf")


@pytest.mark.parametrize(
    ("unit", "template"),
    [
        pytest.param("sglang@1.service", "sglang@.service", id="instance"),
        pytest.param("sglang@a.b.service", "sglang@.service", id="instance-with-a-dot"),
        pytest.param("sglang.service", None, id="plain"),
        pytest.param("sglang@.service", None, id="the-template-itself"),
    ],
)
def test_an_instance_has_a_template(unit: str, template: str | None) -> None:
    assert template_of(unit) == template
