"""The names that a manifest may hold, each an annotated string with its pattern."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, StringConstraints

from state.manifest.quantities import mistake, show

_UNIT = re.compile(r"[A-Za-z0-9_.:-]+(@[A-Za-z0-9_.:-]*)?\.service")
_CRON_FIELD = re.compile(r"(\*|\d{1,2}(-\d{1,2})?|[A-Za-z]{3}(-[A-Za-z]{3})?)(/\d{1,2})?"
                         r"(,(\*|\d{1,2}(-\d{1,2})?|[A-Za-z]{3}(-[A-Za-z]{3})?)(/\d{1,2})?)*")  # fmt: skip
_CRON_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$")]
UserName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,30}$")]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


def _argument_name(value: str) -> str:
    if re.fullmatch(r"[a-z][a-z0-9_]*", value):
        return value
    plain = re.sub(r"[^a-z0-9]+", "_", value.lower()).strip("_")
    raise mistake(f"{show(value)} is no argument name; expected the engine's Python name, `{plain}`")


def _unit_name(value: str) -> str:
    if "/" in value:
        raise mistake(f"{show(value)} has a slash in it; expected a unit name, not a path")
    if not _UNIT.fullmatch(value) or len(value) > 255:
        raise mistake(f"{show(value)} is no service unit; expected a name such as sglang-qwen.service")
    if value.endswith("@.service"):
        raise mistake(f"{show(value)} is a template; expected an instance of it, such as {value[:-8]}qwen.service")
    return value


def _cron(value: str) -> str:
    fields = value.split()
    if len(fields) != 5 or not all(_CRON_FIELD.fullmatch(field) for field in fields):
        raise mistake(f'{show(value)} is no cron line; expected five fields such as "0 7 * * 1-5"')
    for field, (low, high) in zip(fields, _CRON_BOUNDS, strict=True):
        plain = re.sub(r"/\d+", "", field)
        if any(not low <= int(number) <= high for number in re.findall(r"\d+", plain)):
            raise mistake(f"{show(field)} is out of range in {show(value)}; expected numbers from {low} to {high}")
    return value


def _limit(value: Any) -> Any:
    if value in LIMITS:
        return value
    raise mistake(f"{show(value)} is no limit that is known here; expected one of {', '.join(sorted(LIMITS))}")


LIMITS = frozenset(
    {"LimitCORE", "LimitCPU", "LimitFSIZE", "LimitMEMLOCK", "LimitNOFILE", "LimitNPROC", "LimitSTACK", "LimitAS"}
    | {"LimitRTPRIO", "LimitNICE", "MemoryHigh", "MemoryMax", "MemorySwapMax", "TasksMax", "CPUWeight", "IOWeight"}
)
"""Resource directives of systemd.exec(5) and systemd.resource-control(5) that a manifest may set."""

ArgumentName = Annotated[str, AfterValidator(_argument_name)]
UnitName = Annotated[str, AfterValidator(_unit_name)]
CronLine = Annotated[str, AfterValidator(_cron)]
Limit = Annotated[str, AfterValidator(_limit)]
