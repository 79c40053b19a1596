"""The server's one log on standard error: a JSON object a line, or words for people where there is a terminal."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from state.redaction import redact

FIELDS = ("rollout", "service", "purpose", "outcome", "error", "action", "flow_run", "url", "file")
"""What a line may say beside its sentence."""


def set_up(stream: TextIO = sys.stderr) -> None:
    """Everything that this process logs goes through one handler: ours from INFO on, uvicorn's and others' from
    WARNING on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(ForPeople() if stream.isatty() else AsJson())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("interlock").setLevel(logging.INFO)


class AsJson(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "message": redact(record.getMessage()),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = redact(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


class ForPeople(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")  # as a terminal's reader has it
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        told = " ".join(f"{name}={value}" for name, value in _fields(record).items())
        line = f"{at}  {level}{redact(record.getMessage())}" + (f"  [{told}]" if told else "")
        return line + (f"\n{redact(self.formatException(record.exc_info))}" if record.exc_info else "")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in FIELDS if getattr(record, name, None) is not None}
