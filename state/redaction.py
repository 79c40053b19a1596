"""Secrets leave every artefact here, before it is stored and before it is printed."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

REDACTED = "<redacted>"

_WORD = (
    rb"(?:api[_-]?keys?|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?(?:access[_-]?)?keys?)?|passw(?:or)?ds?|passphrase"
    rb"|credentials?|(?:private|encryption|signing|licen[sc]e|watermark|master|hmac)[_-]?key|(?<!eos[_-])(?<!bos[_-])(?<!pad[_-])(?<!unk[_-])(?<!sep[_-])(?<!cls[_-])(?<!mask[_-])token)"
)
_NAME = _WORD + rb"(?![A-Za-z0-9_-])"
_FLAG = (
    rb"--(?:[a-z0-9]{1,20}-){0,4}"
    rb"(?:api-key|apikey|token|secret|secret-key|password|passwd|credentials?|access-key|private-key)"
)
_KEPT_WORD = rb"(?!None\b|null\b|True\b|False\b|true\b|false\b|<redacted>|\$\{?[A-Z_a-z]|\*{3,}|\[?\]|\{\})"
"""Values that are no secrets: nothing, a switch, a reference to a variable, what is hidden already."""
_KEPT = _KEPT_WORD + rb"(?![0-9]{1,4}(?![\w.+/-]))"
"""The same, and a small number, which counts tokens."""

_BARE = rb"[^\s\x00'\",;&)\]}\\]+"
_SCHEME = rb"(?:bearer|basic|token|digest|apikey|api-key|key|negotiate|ntlm|hmac[\w-]*|aws4-hmac-sha256)"
_AUTH = rb"(?P<keep>(?:proxy-)?authorization(?:\\?['\"])?"
_QUOTED = rb"(?P<q>\\?['\"])" + _KEPT_WORD + rb"(?:(?!(?P=q)).)+?(?=(?P=q)|\Z)"

_NAME_ENDS = re.compile(
    rb"(?:keys?(?:[_-]?id)?|secrets?|passw(?:or)?ds?|passphrase|credentials?|token)(?![a-z0-9_-])(?:\\?['\"])?\s*[=:]"
)
"""Where the name of a secret may end, in lower case: found thirty times faster than a name by its beginning."""
_BEGINS = re.compile(_NAME, re.IGNORECASE)
_LONGEST_PREFIX = 24
"""Characters of a name before its last word: `secret_access_`, `encryption_`."""

_NEVER = rb"(?!)"
_HINTS: tuple[bytes, ...] = (
    rb"--", rb"--", _NEVER, _NEVER, _NEVER, _NEVER, rb"authorization", rb"authorization", rb"bearer", rb"\(b?\\?['\"]",
    rb"[ \t]=[ \t]", rb"(?:token|key|secret|password):", rb"(?:pass|pwd|passphrase)=", rb"cookie", rb"curl",
    rb"-----begin",
    rb"://", rb"://", rb"://",
    rb"hf_|sk-|gh[pousr]_|github_pat_|glpat-|xox|nvapi-|aiza|a[ks]ia|eyj",
)  # fmt: skip
"""What a text in lower case must hold for a rule to find anything; rules by name go by `_NAME_ENDS` instead."""

_PATTERNS: tuple[re.Pattern[bytes], ...] = tuple(
    re.compile(rule, re.IGNORECASE | re.DOTALL)
    for rule in (
        # --api-key VALUE and --api-key=VALUE; words split by spaces, NUL (/proc/PID/cmdline) or in a list
        rb"(?P<keep>" + _FLAG + rb"(?:=|[ \t\x00]+)(?P<open>['\"]?))(?!-)" + _KEPT_WORD + _BARE,
        rb"(?P<keep>" + _FLAG + rb"\\?['\"]\s*,\s*\\?['\"])(?!-)" + _KEPT_WORD + rb"(?:[^'\"\\])+",
        # api_key='VALUE' in a repr, 'api_key': 'VALUE' in a dict, "api_key": "VALUE" in JSON
        rb"(?P<keep>" + _NAME + rb"(?:\\?['\"])?\s*[=:]\s*(?P<b>[bB]?))(?P<quoted>" + _QUOTED + rb")",
        # api_keys=['a', 'b']
        rb"(?P<keep>" + _NAME + rb"(?:\\?['\"])?\s*[=:]\s*\[)(?P<list>[^\]]+)(?=\])",
        # HF_TOKEN=VALUE in environments, api_key=VALUE in queries
        rb"(?P<keep>" + _NAME + rb"=)(?!['\"\[\\])" + _KEPT + _BARE,
        # x-api-key: VALUE in headers and YAML
        rb"(?P<keep>" + _NAME + rb":[ \t]+)(?!['\"\[\\{])" + _KEPT + rb"(?![0-9.]+(?:\s|,|$))[^\s\x00'\",;\\]{6,}",
        # Authorization: Bearer VALUE, also as a dict or an argv word
        _AUTH + rb"\s*[:=,]\s*(?:b?\\?['\"])?\s*" + _SCHEME + rb"(?:[ \t]+|%20|\+))" + _KEPT + _BARE,
        _AUTH + rb"\s*[:=]\s*(?:b?\\?['\"])?)(?!\s*" + _SCHEME + rb"\b)" + _KEPT + rb"(?!b?['\"]|\s)" + _BARE,
        rb"(?P<keep>(?<![A-Za-z])bearer[ \t]+)" + _KEPT + rb"(?=[^\s'\"]*[0-9._-])[^\s\x00'\",;\\]{8,}",
        # ('x-api-key', 'VALUE') as headers are listed
        rb"(?P<keep>\([bB]?\\?['\"](?:[\w-]{1,40}[_-])?"
        + _NAME
        + rb"\\?['\"],\s*[bB]?\\?['\"])"
        + _KEPT
        + rb"[^'\"\\]+",
        # api_key = VALUE, HF_TOKEN:VALUE, DB_PASS=VALUE
        rb"(?P<keep>(?:api_?key|secret\w*|password|access_key\w*|private_key)[ \t]+=[ \t]+)(?!['\"\[{(])"
        + _KEPT
        + _BARE,
        rb"(?P<keep>(?<![\w-])(?-i:[A-Z][A-Z0-9_]{0,60}(?:TOKEN|API_KEY|SECRET|PASSWORD)):)(?!['\"\[\\{])"
        + _KEPT
        + _BARE,
        rb"(?P<keep>(?<![\w-])(?-i:[A-Z][A-Z0-9_]{0,60}_(?:PASS|PWD|PASSPHRASE))=['\"]?)" + _KEPT + _BARE,
        # cookies, and the password that curl is given
        rb"(?P<keep>(?<![\w])(?:set-)?cookie\\?['\"]?\s*[:=]\s*[bB]?\\?['\"]?)"
        + _KEPT
        + rb"(?=[^\s'\"]{0,200}=)[^\r\n\x00'\"\\]+",
        rb"(?P<keep>\bcurl\b[^\r\n]{0,400}?\s(?:-u|--user)[ =]?['\"]?[^\s:'\"]{1,80}:)" + _KEPT + _BARE,
        # keys in PEM form, whole or cut
        rb"(?P<keep>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----)" + _KEPT + rb".+?(?=-----END|\Z)",
        # scheme://TOKEN@host
        rb"(?P<keep>://)" + _KEPT + rb"(?=[^\s/@:'\"\x00]*[0-9])[^\s/@:'\"\x00]{16,500}(?=@)",
        # scheme://user:VALUE@host
        rb"(?P<keep>://[^\s/:@'\"\x00]{0,200}:)" + _KEPT + rb"[^\s/@'\"\x00]{1,500}(?=@)",
        # the same where the end of the text cuts it off; a port is no secret
        rb"(?P<keep>://[^\s/:@'\"\x00]{0,200}:)" + _KEPT + rb"(?![0-9]{1,5}\Z)[^\s/@'\"\x00]{1,500}\Z",
        # keys that tell what they are by their own shape
        rb"(?P<keep>(?<![A-Za-z0-9_]))(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}"
        rb"|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|nvapi-[\w-]{16,}|(?-i:AIza)[\w-]{30,}|(?-i:A[KS]IA[A-Z0-9]{16})(?!\w)"
        rb"|(?-i:eyJ)[\w-]{8,}\.(?-i:eyJ)[\w-]{8,}\.[\w-]{8,})",
    )
)
_HINT = re.compile(
    rb"key|token|secret|passw|passphrase|credential|authorization|bearer|://|hf_|sk-|gh[pousr]_|_pass|_pwd|cookie|curl"
    rb"|-----BEGIN|github_pat|glpat-|xox|nvapi-|AIza|A[KS]IA|eyJ",
    re.IGNORECASE,
)
_WORDS = re.compile(rb"[^\s'\",\\]+")
_SHORTEST = 6
"""Characters of a value that is looked for by itself; a shorter one may stand anywhere."""
_SECRET_NAME = re.compile(rb"(?:.*[_-])?" + _WORD + rb"$", re.IGNORECASE)


class _Text(NamedTuple):
    """What is searched by every rule: the bytes, the same in lower case, and where in them names of secrets begin,
    those with one end together."""

    data: bytes
    lower: bytes
    names: Sequence[Sequence[int]]

    @classmethod
    def of(cls, data: bytes) -> "_Text":
        lower = data.lower()
        ends = (end.start() for end in _NAME_ENDS.finditer(lower))
        reach = (range(max(0, end - _LONGEST_PREFIX), end + 1) for end in ends)
        return cls(data, lower, [[begin for begin in near if _BEGINS.match(data, begin)] for near in reach])


class _Rule(NamedTuple):
    """A pattern, and the hint without which it need not be tried; `named` rules begin with the name of a secret."""

    pattern: re.Pattern[bytes]
    hint: re.Pattern[bytes]
    named: bool

    def matches(self, text: _Text) -> Iterator[re.Match[bytes]]:
        """As `pattern.finditer` gives them, only sooner."""
        if self.named:
            return self._named(text)
        return self.pattern.finditer(text.data) if self.hint.search(text.lower) else iter(())

    def _named(self, text: _Text) -> Iterator[re.Match[bytes]]:
        done = 0
        for begins in text.names:
            for begin in begins:
                if begin >= done and (found := self.pattern.match(text.data, begin)):
                    done = found.end()
                    yield found
                    break

    def hide(self, text: _Text) -> _Text:
        pieces, done = [], 0
        for found in self.matches(text):
            pieces += [text.data[done : found.start()], _hide(found)]
            done = found.end()
        return _Text.of(b"".join([*pieces, text.data[done:]])) if pieces else text


_RULES = tuple(
    _Rule(pattern, re.compile(hint), hint == _NEVER) for pattern, hint in zip(_PATTERNS, _HINTS, strict=True)
)


def redact(text: str) -> str:
    """`text` with the value of every known kind of secret replaced by `<redacted>`."""
    return redact_bytes(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


def redact_bytes(data: bytes) -> bytes:
    """The same for bytes; what is no UTF-8 is kept as it is."""
    if _HINT.search(data) is None:
        return data
    text = _Text.of(data)
    for rule in _RULES:
        text = rule.hide(text)
    return text.data


def secret_values(text: str) -> frozenset[str]:
    """The values that `redact` replaces in `text`, to be taken out of what was made of its pieces."""
    data = text.encode("utf-8", "surrogatepass")
    found: set[bytes] = set()
    if _HINT.search(data) is not None:
        searched = _Text.of(data)
        for rule in _RULES:
            for match in rule.matches(searched):
                found.update(_WORDS.findall(match[0][len(match["keep"]) :]))
            searched = rule.hide(searched)
    return frozenset(value.decode("utf-8", "replace") for value in found if len(value) >= _SHORTEST)


def is_secret_name(name: str) -> bool:
    """Whether a variable, field or flag of this name holds a secret; counts of tokens and tokenizers do not."""
    return _SECRET_NAME.match(name.lstrip("-").encode("utf-8", "replace")) is not None


def _hide(found: re.Match[bytes]) -> bytes:
    groups = found.groupdict()
    mark = REDACTED.encode()
    if groups.get("list") is not None:
        return found["keep"] + b"'" + mark + b"'"
    if groups.get("quoted") is not None:
        return found["keep"] + found["q"] + mark
    return found["keep"] + mark


def redact_argv(words: Sequence[str]) -> tuple[str, ...]:
    """An argv with the words behind a secret flag, and every secret inside a word, replaced.

    A flag may take several values; the second and later ones are taken for values unless they are paths.
    """
    shown: list[str] = []
    hidden = False
    for word in words:
        flag = shown[-1] if shown else ""
        behind = flag.startswith("-") and "=" not in flag and is_secret_name(flag.lstrip("-").replace("-", "_"))
        hidden = behind or (hidden and flag == REDACTED and "/" not in word)
        hidden = hidden and not word.startswith(("-", "$"))
        shown.append(REDACTED if hidden else redact(word))
    return tuple(shown)
