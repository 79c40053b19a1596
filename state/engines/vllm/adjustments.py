# ruff: noqa: E501  # lines of logs and their patterns are shown whole
"""Settings that vLLM changes by itself, by what it prints about them (0.6 to 0.29, public logs)."""

import re

ADJUSTMENTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("deprecated-flag", re.compile(r"(?:-{2}[a-z][\w-]+|\bVLLM_[A-Z_0-9]+)['`\"]?.{0,60}(?:deprecated|removed)|deprecat\w+.{0,60}-{2}[a-z][\w-]+")),
    ("overlap-off", re.compile(r"[Aa]sync(?:hronous)? scheduling.{0,80}(?:disabl|not supported|turned off)|[Dd]isabling async(?:hronous)? scheduling")),
    ("chunked-prefill", re.compile(r"[Cc]hunked prefill (?:is |has been )?(?:disabled|not supported|turned off)|[Dd]isabling chunked prefill|max_num_batched_tokens.{0,40}(?:adjusted|set|increased|reset) to")),
    ("radix-cache-off", re.compile(r"[Pp]refix[ -]caching (?:is |has been )?(?:disabled|not supported|turned off)|[Dd]isabling prefix[ -]caching")),
    ("draft-tokens", re.compile(r"num_speculative_tokens.{0,60}(?:adjusted|set|reset|overrid\w+|capped|defaulting)")),
    ("max-running-requests", re.compile(r"max_num_seqs.{0,60}(?:adjusted|reset|overrid\w+|capped|reduced)")),
    ("kv-dtype", re.compile(r"(?:[Ss]etting|[Cc]hang\w+|[Ff]orc\w+) (?:the )?kv[ _-]cache[ _-]dtype")),
    ("attention-backend", re.compile(r"(?:[Ff]all\w* back to|[Ss]witch\w* to|[Ff]orcing|[Oo]verriding).{0,40}attention backend|[Cc]annot use \w+ (?:attention )?backend")),
    ("mem-fraction", re.compile(r"gpu_memory_utilization.{0,60}(?:adjusted|reset|reduced|overrid\w+|lowered)")),
)  # fmt: skip
