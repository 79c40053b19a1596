"""SGLang's own API: `POST /generate`, plain and streamed, with `meta_info`."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Mapping

from .batch import Job
from .compose import Wish, compose
from .engine import Engine
from .prose import pieces_of
from .protocol import DONE, Request, Response, event, event_stream, json_response

_DEFAULT_NEW_TOKENS = 128
_END_TOKEN = 248046


async def generate(engine: Engine, request: Request) -> Response:
    try:
        jobs, alone = _jobs(engine, request.json())
        streamed = bool(request.json().get("stream"))
    except (ValueError, TypeError) as error:
        return json_response({"error": {"message": str(error)}}, 400)
    if streamed:
        return event_stream(_stream(engine, jobs[0]))
    found = []
    for job in jobs:
        await engine.finish(job)
        engine.count(job)
        found.append(_answer(engine, job))
    return json_response(found[0] if alone else found)


def _jobs(engine: Engine, body: Mapping[str, object]) -> tuple[list[Job], bool]:
    """The jobs of a request, and whether it was a single one. Raises ValueError, TypeError for what is no request."""
    given = body.get("text", body.get("input_ids"))
    if given is None:
        raise ValueError("Either text, input_ids or input_embeds should be provided.")
    alone = isinstance(given, str) or (isinstance(given, list) and bool(given) and isinstance(given[0], int))
    prompts = [given] if alone else list(given) if isinstance(given, list) else []
    parameters = body.get("sampling_params") or {}
    if not isinstance(parameters, dict) or not prompts:
        raise ValueError("sampling_params must be a dictionary, and there must be a prompt")
    return [new_job(engine, prompt, parameters, str(body.get("rid") or "")) for prompt in prompts], alone


def new_job(engine: Engine, prompt: object, parameters: Mapping[str, object], rid: str = "") -> Job:
    words = pieces_of(prompt) if isinstance(prompt, str) else [str(token) for token in _tokens(prompt)]
    most = int(str(parameters.get("max_new_tokens", _DEFAULT_NEW_TOKENS)))
    _check_length(engine, len(words))
    stop = parameters.get("stop") or ()
    wish = Wish(
        prompt=prompt if isinstance(prompt, str) else "",
        most=min(most, context_left(engine, len(words))),
        ignore_eos=bool(parameters.get("ignore_eos")),
        stop=(stop,)
        if isinstance(stop, str)
        else tuple(str(part) for part in stop if part)
        if isinstance(stop, list)
        else (),
        json_wanted=bool(parameters.get("json_schema")),
        raw=True,
        variety=_variety(engine, parameters),
        company=len(engine.requests),
    )
    pieces, finish = compose(engine.launch, wish)
    return engine.new_job(words, pieces, finish, rid)


def _tokens(prompt: object) -> list[int]:
    if isinstance(prompt, list) and all(isinstance(token, int) for token in prompt):
        return prompt
    raise TypeError("input_ids must be a list of integers")


def _check_length(engine: Engine, tokens: int) -> None:
    if context_left(engine, tokens) < 1:
        raise ValueError(
            f"The input ({tokens} tokens) is longer than the model's context length ({engine.context_length} tokens)."
        )


def context_left(engine: Engine, tokens: int) -> int:
    return engine.context_length - tokens


def _variety(engine: Engine, parameters: Mapping[str, object]) -> int:
    """0 for greedy sampling, else a number that differs between requests."""
    return 0 if parameters.get("temperature") in (0, 0.0) else engine.totals.requests + 1


def text_of(job: Job) -> str:
    return "".join(job.pieces[: job.done])


def token_ids(job: Job) -> list[int]:
    return [zlib.crc32(piece.encode()) % 248_000 if piece else _END_TOKEN for piece in job.pieces[: job.done]]


def _answer(engine: Engine, job: Job) -> dict[str, object]:
    return {"text": text_of(job), "output_ids": token_ids(job), "meta_info": meta_info(engine, job)}


async def _stream(engine: Engine, job: Job) -> AsyncIterator[bytes]:
    told = 0
    async for _ in engine.progress(job):
        if job.done > told:
            told = job.done
            yield event(_answer(engine, job))
    engine.count(job)
    yield DONE


def meta_info(engine: Engine, job: Job) -> dict[str, object]:
    """The request's own figures; those of speculation only once it is finished, under the version's names."""
    found: dict[str, object] = {
        "id": job.rid,
        "finish_reason": _finish_reason(job),
        "prompt_tokens": len(job.prompt),
        "weight_version": "default",
        "num_retractions": 0,
        "reasoning_tokens": 0,
        "completion_tokens": job.done,
        "cached_tokens": job.cached,
        "cached_tokens_details": None,
        "dp_rank": None,
    }
    if job.complete:
        found["e2e_latency"] = job.finished - job.arrived
        if job.verify_calls:
            found.update(_speculation(engine, job))
        found.update(request_received_ts=job.arrived, request_finished_ts=job.finished)
    return found


def _finish_reason(job: Job) -> dict[str, object] | None:
    if not job.complete:
        return None
    return {"type": "length", "length": job.done} if job.finish == "length" else {"type": "stop", "matched": _END_TOKEN}


def speculation_of(engine: Engine, job: Job) -> tuple[int, int, list[int]]:
    """Drafts accepted, drafts proposed, and how many verify calls accepted 0, 1, 2 and more of them."""
    most = max(job.histogram, default=0)
    histogram = [job.histogram.get(count, 0) for count in range(most + 1)]
    return job.accepted, job.verify_calls * engine.batch.acceptance.steps, histogram


def _speculation(engine: Engine, job: Job) -> dict[str, object]:
    version = engine.launch.version
    _, proposed, histogram = speculation_of(engine, job)
    found: dict[str, object] = {
        "spec_accept_rate": job.accepted / proposed,
        "spec_accept_length": job.done / job.verify_calls,
        "spec_verify_ct": job.verify_calls,
    }
    if version < (0, 5, 11):
        found.update(spec_accept_token_num=job.accepted, spec_draft_token_num=proposed)
        return found if version < (0, 5, 9) else {**found, "spec_accept_histogram": histogram}
    if version >= (0, 5, 12):
        found.update(
            spec_num_correct_drafts=job.accepted,
            spec_num_proposed_drafts=proposed,
            spec_correct_drafts_histogram=histogram,
        )
    if version < (0, 5, 22):
        found.update(spec_accepted_drafts=job.accepted, spec_proposed_drafts=proposed, spec_accept_histogram=histogram)
    return found
