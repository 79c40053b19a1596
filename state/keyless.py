"""Whether a service that is asked with an API key refuses who comes without one: a change may have cost it that."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from state.claims import Claim, Fact
from state.target import Target

KEYLESS, BEFORE = "keyless", "baseline-keyless"
METRIC = "requests.newly_keyless"

UNAUTHORIZED = (401, 403)
"""401 is what SGLang, vLLM and llama-server answer without their key; 403 what a gateway in front of them may."""

Records = Sequence[Mapping[str, Any]]


def claims(target: Target) -> Iterator[Claim]:
    """Of a target with a key file. That nothing is known of it is no reason to go back."""
    if target.key_file is not None:
        yield Claim(
            name="key-asked-for",
            plane="function",
            statement="who comes without the API key gets no generation, unless it was so before",
            metric=METRIC,
            relation="equals",
            expected=False,
            source="our own request without the key",
            remedy="the engine was started without its key: see its `config`, `api_key_file` and the files of "
            "`unit.secrets`; or leave `engine.key_file` out if it shall ask for none",
            doubt="accept",
        )


def facts(now: Records, before: Records, cited: tuple[str, ...]) -> Iterator[Fact]:
    """True for a service that generates without a key, as the one before it did not; None where no answer tells."""
    if not now:
        return
    status, told = now[0].get("status"), before[0].get("status") if before else None
    newly = (told != 200) if status == 200 else False if status in UNAUTHORIZED else None
    text = f"without the key it answers HTTP {status}" if status else "without the key it does not answer"
    text += ", as it did before" if status == told else f"; before, it was HTTP {told}" if told else ""
    yield Fact(metric=METRIC, value=newly, text=text, evidence=cited)
