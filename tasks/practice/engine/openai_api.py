"""The OpenAI-compatible API: chat completions and completions, plain and streamed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from .answer_shape import answer_end, answer_id, choice_end
from .batch import Job
from .compose import Wish, compose
from .engine import Engine
from .native import context_left, meta_info, text_of
from .prose import pieces_of
from .protocol import DONE, Request, Response, event, event_stream, json_response
from .tools import asked_tool, delta_of, markup, message_of

_MOST_BY_DEFAULT = 4096
_TEMPLATE_TOKENS = 9


class BadRequest(ValueError):
    """The body is no request that the endpoint understands."""


async def chat(engine: Engine, request: Request) -> Response:
    if _overloaded(engine):
        return json_response({"object": "error", "message": "The request queue is full.", "code": 503}, 503)
    try:
        body = request.json()
        job = _chat_job(engine, body)
    except ValueError as error:
        return _bad_request(str(error))
    return await _respond(engine, body, job, chat_like=True)


async def completions(engine: Engine, request: Request) -> Response:
    try:
        body = request.json()
        prompt = body.get("prompt")
        if not isinstance(prompt, str):
            raise BadRequest("prompt: Input should be a valid string")
        job = _job(engine, body, prompt, pieces_of(prompt), most=16, raw=True)
    except ValueError as error:
        return _bad_request(str(error))
    return await _respond(engine, body, job, chat_like=False)


def _overloaded(engine: Engine) -> bool:
    """Whether there are as many chats as the fault lets in (SGLang's --max-queued-requests answers like this)."""
    fault = engine.launch.faults.get("overloaded")
    return fault is not None and len(engine.requests) >= fault.number("above", 2)


def _bad_request(message: str) -> Response:
    return json_response(
        {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": 400}, 400
    )


def _chat_job(engine: Engine, body: Mapping[str, object]) -> Job:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages: Field required")
    texts = [_content(message) for message in messages]
    words = pieces_of("\n".join(texts))
    last = next((text for text, m in zip(texts[::-1], messages[::-1]) if m.get("role") == "user"), texts[-1])  # noqa: B905  # Python 3.9
    return _job(engine, body, last, ["<|im_start|>"] * _TEMPLATE_TOKENS + words, most=_MOST_BY_DEFAULT, raw=False)


def _content(message: object) -> str:
    """The text of a message, whose content is a string or a list of parts."""
    if not isinstance(message, dict) or "role" not in message:
        raise BadRequest("messages: Input should be a valid dictionary with a role")
    content = message.get("content") or ""
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def _job(engine: Engine, body: Mapping[str, object], prompt: str, words: list[str], *, most: int, raw: bool) -> Job:
    left = context_left(engine, len(words))
    if left < 1:
        raise BadRequest(
            f"Requested token count exceeds the model's maximum context length of {engine.context_length} tokens."
        )
    asked = body.get("max_completion_tokens") or body.get("max_tokens") or most
    if not isinstance(asked, int) or asked < 1:
        raise BadRequest("max_tokens: Input should be a valid integer greater than 0")
    stop = body.get("stop") or ()
    form = body.get("response_format")
    form = form if isinstance(form, dict) else {}
    holder = form.get("json_schema")
    schema = holder.get("schema") if isinstance(holder, dict) else None
    tool = asked_tool(body)
    if tool is not None:
        schema = tool[1]
    elif engine.launch.faults.has("schema-ignored"):
        schema, form = None, {}
    wish = Wish(
        prompt=prompt,
        most=min(asked, left),
        ignore_eos=bool(body.get("ignore_eos")),
        stop=(stop,) if isinstance(stop, str) else tuple(str(part) for part in stop) if isinstance(stop, list) else (),
        json_wanted=form.get("type") in ("json_object", "json_schema"),
        schema=schema if isinstance(schema, dict) else None,
        raw=raw,
        variety=0 if body.get("temperature") in (0, 0.0) else engine.totals.requests + 1,
        company=len(engine.requests),
    )
    pieces, finish = compose(engine.launch, wish)
    job = engine.new_job(words, pieces, finish)
    job.tool = tool[0] if tool is not None else ""
    return job


async def _respond(engine: Engine, body: Mapping[str, object], job: Job, *, chat_like: bool) -> Response:
    if body.get("stream"):
        return event_stream(_stream(engine, body, job, chat_like=chat_like))
    await engine.finish(job)
    engine.count(job)
    choice: dict[str, object] = {"index": 0}
    if chat_like:
        choice["message"] = message_of(job, parser_missing=engine.launch.faults.has("tool-parser-missing"))
    else:
        choice["text"] = text_of(job)
    choice.update(logprobs=None, finish_reason=_finish(engine, job), **choice_end(engine))
    if body.get("return_meta_info") and engine.launch.version >= (0, 5, 13):
        choice["meta_info"] = meta_info(engine, job)
    kind = "chat.completion" if chat_like else "text_completion"
    head, end = _head(engine, body, job, kind), answer_end(engine, job)
    return json_response({**head, "choices": [choice], "usage": usage(job), **end})


def _finish(engine: Engine, job: Job) -> str:
    called = job.tool and job.finish == "stop" and not engine.launch.faults.has("tool-parser-missing")
    return "tool_calls" if called else job.finish


def _head(engine: Engine, body: Mapping[str, object], job: Job, kind: str) -> dict[str, object]:
    """Both engines echo the model name that they were asked for; vLLM refuses one that it does not serve."""
    model = body.get("model") or engine.launch.resolved.text("served_model_name")
    return {"id": answer_id(engine, job, kind), "object": kind, "created": int(job.arrived), "model": model}


def usage(job: Job) -> dict[str, object]:
    return {
        "prompt_tokens": len(job.prompt),
        "total_tokens": job.tokens,
        "completion_tokens": job.done,
        "prompt_tokens_details": None,
        "reasoning_tokens": 0,
    }


async def _stream(engine: Engine, body: Mapping[str, object], job: Job, *, chat_like: bool) -> AsyncIterator[bytes]:
    head = _head(engine, body, job, "chat.completion.chunk" if chat_like else "text_completion")

    def chunk(part: Mapping[str, object], finish: str | None = None) -> bytes:
        inner = {"delta": {"reasoning_content": None, **part}} if chat_like else {"text": part.get("content", "")}
        choice = {"index": 0, **inner, "logprobs": None, "finish_reason": finish, **choice_end(engine)}
        return event({**head, "choices": [choice]})

    told, leaks = 0, bool(job.tool) and engine.launch.faults.has("tool-parser-missing")
    async for _ in engine.progress(job):
        if not told and chat_like:
            yield chunk({"role": "assistant", "content": ""})
        if (text := "".join(job.pieces[told : job.done])) and not leaks:
            yield chunk(delta_of(job, text, first=not told) if job.tool else {"content": text})
        told = job.done
        broken = engine.launch.faults.get("streams-break")
        if broken and told >= broken.number("after", 64):
            return
    if leaks:
        yield chunk({"content": markup(job.tool, text_of(job))})
    engine.count(job)
    yield chunk({}, _finish(engine, job))
    options = body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        yield event({**head, "choices": [], "usage": usage(job)})
    yield DONE
