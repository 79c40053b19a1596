"""Tool calls of the chat API: which tool a request asks for, and how a call of it is told, whole or in a stream."""

from __future__ import annotations

from collections.abc import Mapping

from .batch import Job
from .native import text_of


def asked_tool(body: Mapping[str, object]) -> tuple[str, Mapping[str, object]] | None:
    """Name and parameters' schema of the first function that is offered; the simulated model always calls it."""
    tools = body.get("tools")
    if not isinstance(tools, list) or body.get("tool_choice") == "none":
        return None
    functions = [tool.get("function") for tool in tools if isinstance(tool, dict)]
    function = next((f for f in functions if isinstance(f, dict) and f.get("name")), None)
    if function is None:
        return None
    schema = function.get("parameters")
    return str(function["name"]), schema if isinstance(schema, dict) else {}


def message_of(job: Job, *, parser_missing: bool) -> dict[str, object]:
    """The assistant's message: a call, or its markup in the text where no parser knows it."""
    message: dict[str, object] = {"role": "assistant", "content": text_of(job), "reasoning_content": None}
    if not job.tool:
        return {**message, "tool_calls": None}
    if parser_missing:
        return {**message, "content": markup(job.tool, text_of(job)), "tool_calls": None}
    function = {"name": job.tool, "arguments": text_of(job)}
    call = {"id": f"call_{job.rid[:24]}", "index": 0, "type": "function", "function": function}
    return {**message, "content": None, "tool_calls": [call]}


def delta_of(job: Job, text: str, *, first: bool) -> dict[str, object]:
    """A piece of a streamed call: the name with the first, then the arguments as they come."""
    function = {"name": job.tool if first else None, "arguments": text}
    call = {"id": f"call_{job.rid[:24]}" if first else None, "index": 0, "type": "function", "function": function}
    return {"content": None, "tool_calls": [call]}


def markup(name: str, arguments: str) -> str:
    """As Qwen's chat template has the model write it."""
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
