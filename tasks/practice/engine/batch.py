"""The scheduler's work as a pure machine: requests admitted, prefilled and decoded together, one forward at a time.

No I/O and no clock: the time is given, in seconds. Each forward that makes the counter a multiple of
--decode-log-interval yields a `Decode batch` line, as the engine's does.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

from . import lines
from .drafts import Acceptance, acceptance_of
from .launch import Launch
from .sizes import Sizes, running_requests

_MAMBA_SLOTS = 4
_PROMPTS_CACHED = 4096


@dataclass
class Job:
    """One request in the scheduler. `pieces` is all it will generate; `done` of them are out."""

    rid: str
    prompt: tuple[str, ...]
    pieces: list[str]
    finish: str  # "stop" or "length"
    arrived: float
    cached: int = 0
    done: int = 0
    verify_calls: int = 0
    accepted: int = 0
    histogram: dict[int, int] = field(default_factory=dict)
    first_token: float = 0.0
    finished: float = 0.0
    tool: str = ""

    @property
    def complete(self) -> bool:
        return self.done >= len(self.pieces)

    @property
    def tokens(self) -> int:
        return len(self.prompt) + self.done


@dataclass
class Counts:
    """Totals since the start; `by_position` counts accepted drafts by their place in the step."""

    prompt_tokens: int = 0
    generated_tokens: int = 0
    verify_calls: int = 0
    accepted: int = 0
    by_position: dict[int, int] = field(default_factory=dict)


class Batch:
    """Waiting and running requests of one scheduler, and what it has counted since it started."""

    def __init__(self, launch: Launch, sizes: Sizes, now: float) -> None:
        self._launch, self._sizes = launch, sizes
        self.acceptance: Acceptance = acceptance_of(launch)
        self._chance = random.Random(launch.settings.seed)
        self.limit = running_requests(launch, sizes)
        self.waiting: deque[Job] = deque()
        self.running: list[Job] = []
        self.forwards = 0
        self.counts = Counts()
        self.last_throughput = 0.0
        self.last_acceptance: tuple[float, float] | None = None
        self._seen: set[tuple[str, ...]] = set()
        self._last_prefill = self._last_decode = now
        self._tokens = self._accepted = self._calls = 0
        self._all_tokens = self._all_calls = 0

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.running)

    @property
    def mean_accept_length(self) -> float | None:
        """Tokens for each verify call since the start, known from the first decode line on."""
        return self._all_tokens / self._all_calls if self._all_calls else None

    def submit(self, job: Job) -> None:
        self.waiting.append(job)

    def drop(self, job: Job) -> None:
        """Forget a request whose client went away."""
        if job in self.waiting:
            self.waiting.remove(job)
        if job in self.running:
            self.running.remove(job)

    def prefill(self, now: float) -> list[str]:
        """Admit what fits; each request admitted gets its first token here."""
        admitted: list[Job] = []
        while self.waiting and len(self.running) + len(admitted) < self.limit:
            admitted.append(self.waiting.popleft())
        if not admitted:
            return []
        radix = not self._launch.resolved.arguments["disable_radix_cache"]
        for job in admitted:
            if radix and job.prompt in self._seen:
                job.cached = max(0, len(job.prompt) - 1)
            self._remember(job.prompt)
            job.done, job.first_token = 1, now
            job.finished = now if job.complete else 0.0
        new = sum(len(job.prompt) - job.cached for job in admitted)
        self.counts.prompt_tokens += sum(len(job.prompt) for job in admitted)
        self.counts.generated_tokens += len(admitted)
        line = lines.prefill_batch(
            self._launch.version,
            self._usage(decode=False),
            sequences=len(admitted),
            new=new,
            cached=sum(job.cached for job in admitted),
            running=len(self.running),
            queued=len(self.waiting),
            throughput=new / max(1e-3, now - self._last_prefill),
        )
        self._last_prefill = now
        self.running += [job for job in admitted if not job.complete]
        return [line] if self._launch.engine == "sglang" else []

    def _remember(self, prompt: tuple[str, ...]) -> None:
        if len(self._seen) >= _PROMPTS_CACHED:
            self._seen.clear()
        self._seen.add(prompt)

    def cost(self, now: float) -> float:
        """Seconds that the next forward takes.

        Drafting and verifying cost the same whatever the batch; every further request adds its tokens, one or, with
        drafts to verify, one and each draft. So what speculation gains at concurrency 1 it loses again under load.
        """
        settings, steps = self._launch.settings, self._launch.resolved.drafts_per_step
        further = settings.token_cost * (1 + steps) * max(0, len(self.running) - 1)
        slower = self._launch.faults.get("slower")
        factor = slower.number("factor", 2.0) if slower else 1.0
        return settings.forward_seconds * (1 + steps * settings.draft_cost + further) * factor * self._noise(now)

    def _noise(self, now: float) -> float:
        """The factor of this stretch of time: neighbours and clocks change more slowly than forwards follow each
        other."""
        settings = self._launch.settings
        if not settings.noise:
            return 1.0
        stretch = int(now / settings.noise_seconds)
        return float(max(0.2, random.Random(f"{settings.seed}:{stretch}").gauss(1.0, settings.noise)))

    def forward(self, now: float) -> list[str]:
        """One decode forward of every running request."""
        count = len(self.running)
        for job in self.running:
            self._advance(job, now)
        self.running = [job for job in self.running if not job.complete]
        self.forwards += 1
        interval = max(1, self._launch.resolved.integer("decode_log_interval"))
        told = self._launch.engine == "sglang" and self.forwards % interval == 0
        return [self._tick(count, now)] if told else []

    def _advance(self, job: Job, now: float) -> None:
        gained = 1
        if self.acceptance.steps:
            accepted = self.acceptance.draw(self._chance)
            gained += accepted
            job.verify_calls += 1
            job.accepted += accepted
            job.histogram[accepted] = job.histogram.get(accepted, 0) + 1
            self._calls += 1
            self._accepted += accepted
            self._count(accepted)
        self._tokens += gained
        self.counts.generated_tokens += min(gained, len(job.pieces) - job.done)
        job.done = min(len(job.pieces), job.done + gained)
        if job.complete:
            job.finished = now

    def _count(self, accepted: int) -> None:
        self.counts.verify_calls += 1
        self.counts.accepted += accepted
        for position in range(accepted):
            self.counts.by_position[position] = self.counts.by_position.get(position, 0) + 1

    def _tick(self, count: int, now: float) -> str:
        self.last_throughput = self._tokens / max(1e-3, now - self._last_decode)
        self.last_acceptance = None
        if self._calls:
            self._all_tokens += self._accepted + self._calls
            self._all_calls += self._calls
            length = (self._accepted + self._calls) / self._calls
            drafts = self._launch.resolved.integer("speculative_num_draft_tokens")
            rate = self._launch.version.logged_accept_rate(length, self.acceptance.steps, drafts)
            self.last_acceptance = (length, rate)
        self._last_decode, self._tokens, self._accepted, self._calls = now, 0, 0, 0
        if self._launch.faults.has("unknown-log-shape"):
            return lines.unknown_shape(running=count, acceptance=self.last_acceptance)
        return lines.decode_batch(
            self._launch.version,
            self._usage(decode=True),
            running=count,
            acceptance=self.last_acceptance,
            graph=bool(self._sizes.graphs),
            throughput=self.last_throughput,
            queued=len(self.waiting),
        )

    @property
    def used_tokens(self) -> int:
        return sum(job.tokens for job in self.running)

    @property
    def mamba_used(self) -> int:
        return _MAMBA_SLOTS * len(self.running) if self._launch.model.hybrid else 0

    def _usage(self, *, decode: bool) -> list[str]:
        tokens, mamba = self.used_tokens, self.mamba_used
        return lines.usage_fields(
            decode=decode,
            hybrid=self._launch.model.hybrid,
            tokens=tokens,
            token_usage=tokens / max(1, self._sizes.tokens),
            mamba=mamba,
            mamba_usage=mamba / max(1, self._sizes.mamba_slots),
        )
