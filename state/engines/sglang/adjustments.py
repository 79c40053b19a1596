# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""Settings that SGLang changes by itself, by what it prints about them (0.4.6 to 0.5.23, from source and real logs)."""

import re

from state.inspection.signatures import has_any

_CHANGED = r"(?:is|are|was|has been|have been|will be|being)? ?(?:automatically )?(?:adjusted|set|reset|changed|capped|forced|reduced|overridden|overriding|clamped|disabled|turned off|increased|lowered|rounded|limited)"

_TABLE: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (code, re.compile(pattern, re.IGNORECASE))
    for code, pattern in (
        ("overlap-on", r"overlap schedul\w* is (?:turned on|enabled)|spec v2 is enabled by default"),
        ("mixed-chunk-off", r"mixed[ _-]?chunk\w*( prefill)? (?:is|was) (?:disabled|turned off)|disabl\w+ mixed[ _-]chunk|turn\w* off mixed[ _-]chunk"),
        ("overlap-off", r"overlap schedul\w* (?:is|was|will be) (?:disabled|turned off|not (?:implemented|supported))"
                        r"|disabl\w+ overlap schedul|incompatible with overlap schedul|spec v1 is used for|non-overlap \(synchronous\) spec v2"
                        r"|turn\w* off overlap|disable_overlap_schedule (?:is|=) ?(?:set to )?true because"),
        ("radix-cache-off", r"disabl\w+ (?:the )?radix[ _-]?cache|radix[ _-]?cache (?:is|was|will be) (?:disabled|turned off|forced)|disable_radix_cache (?:is )?(?:set|forced) to true|turn\w* off radix"),
        ("max-running-requests", r"max[ _-]running[ _-]requests? " + _CHANGED),
        ("draft-tokens", r"speculative_num_(?:draft_tokens|steps) " + _CHANGED + r"|only supports speculative_num_steps == \d+; overriding"),
        ("topk", r"speculative_eagle_topk " + _CHANGED),
        ("chunked-prefill", r"(?<!mixed[ _-])chunked[ _-]prefill(?:[ _-]size)? " + _CHANGED + r"|turn\w* off? ?(?:the )?-{0,2}chunked[ _-]prefill|disabl\w+ chunked[ _-]prefill|(?:adjust|set)\w* (?:the )?-{0,2}chunked[ _-]prefill[ _-]size"),
        ("mem-fraction", r"mem[ _-]fraction[ _-]static " + _CHANGED + r"|(?:reduc|adjust|lower|set)\w* (?:the )?-{0,2}mem[ _-]fraction[ _-]static(?! (?:to a smaller|or))"),
        ("kv-dtype", r"(?:setting|set|using|chang\w+|forc\w+) (?:the )?(?:-{0,2}kv[ _-]cache[ _-]dtype) (?:to|from)|kv[ _-]cache[ _-]dtype " + _CHANGED),
        ("scheduler-strategy", r"mamba[ _-](?:scheduler|radix[ _-]cache)[ _-]strategy.{0,60}(?:set|adjusted|changed|resolved|falls? back|switch\w*|using|->|to (?:extra_buffer|no_buffer))"
                               r"|schedule[ _-](?:policy|conservativeness) " + _CHANGED),
        ("parallel-size", r"(?:tensor|data|expert|pipeline|context)[ _-]parallel(?:ism)?[ _-]size " + _CHANGED + r"|\b(?:tp|dp|ep|pp|cp|moe_dp|attn_tp|attn_cp|moe_dense_tp)_size " + _CHANGED
                          + r"|-{0,2}(?:tp|dp|ep|pp)-size " + _CHANGED + r"|(?:set|adjust)\w* (?:tp|dp|ep|pp)_size to"),
        ("attention-backend", r"attention[ _-]backend (?:is )?not (?:set|explicitly specified|specified)|attention[ _-]backend (?:is )?" + _CHANGED
                              + r"|(?:set|switch\w*|chang\w+|fall\w* back|overrid\w+|forc\w+)\w* (?:the )?(?:prefill |decode |draft )?attention[ _-]backend"
                              r"|use \w+ (?:as )?(?:the )?(?:attention )?backend (?:by default|as (?:the )?default)"),
        ("algorithm-alias", r"draft; promoting|speculative[ _]algorithm.{0,40}\bnextn\b.{0,60}\beagle\b|\bnextn\b (?:is|as) an alias"),
        ("deprecated-flag", r"(?:-{2}[a-z][\w-]+|\bflag\b|\bargument\b|\boption\b|SGLANG_[A-Z_0-9]+|SGL_[A-Z_0-9]+)['`\"]?,? .{0,40}(?:is|are|has been|was|will be) (?:now )?(?:deprecated|removed)|deprecat\w+.{0,60}-{2}[a-z][\w-]+"),
    )
)  # fmt: skip

ADJUSTMENT_WORDS = (
    b"overlap", b"spec v", b"chunk", b"radix", b"running requests", b"running_requests", b"speculative_",
    b"mem_fraction", b"mem-fraction", b"mem fraction", b"cache dtype", b"cache_dtype", b"cache-dtype", b"strategy",
    b"schedule_", b"schedule ", b"parallel", b"_size ", b"-size ", b"attention backend", b"attention_backend",
    b"attention-backend", b"promoting", b"nextn", b"deprecat", b"removed", b" backend by default",
)  # fmt: skip
"""In lower case; every line about an adjustment has one of them."""
_NEVER = re.compile(
    r"endpoint '|DeprecationWarning|FutureWarning|UserWarning|\[transformers\]|^usage:|prefill CUDA graph because"
)
_LATE = frozenset({"attention-backend", "kv-dtype", "scheduler-strategy", "max-running-requests"})
"""Codes that ranks also print after the arguments line."""


def adjustments(raw: bytes, text: str) -> tuple[tuple[str, bool], ...]:
    """The codes of what the line says was changed, each with whether it is only printed before the arguments line."""
    if not has_any(raw.lower(), ADJUSTMENT_WORDS) or _NEVER.search(text) or text[:1] in " \t":
        return ()
    early = text.startswith("Max running requests is reset")
    return tuple((code, early or code not in _LATE) for code, pattern in _TABLE if pattern.search(text))
