"""What systemd makes of a unit file: extract_first_word, specifiers and variables as systemd 252 does them."""

import re

ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " "}


def directives(text: str, section: str) -> dict[str, list[str]]:
    """The values of a section's directives, in order; comments and other sections left out."""
    found: dict[str, list[str]] = {}
    current = ""
    for line in text.split("\n"):
        assert not line.endswith("\\"), "a continued line"
        if line.startswith("["):
            current = line.strip("[]")
        elif line and line[0] not in "#;" and current == section:
            name, _, value = line.partition("=")
            found.setdefault(name.strip(), []).append(value.strip(" \t"))
    return found


def split_words(text: str) -> list[str]:
    """Words unquoted with C escapes; a quote opens anywhere in a word."""
    words, position = [], 0
    while True:
        while position < len(text) and text[position] in " \t":
            position += 1
        if position == len(text):
            return words
        assert not re.match(r";(\s|$)", text[position:]), "an unquoted `;` separates commands"
        word, position = _word(text, position)
        words.append(word)


def _word(text: str, position: int) -> tuple[str, int]:
    word, quote = "", ""
    while position < len(text) and (quote or text[position] not in " \t"):
        char = text[position]
        if char == "\\":
            position += 1
            word += ESCAPES.get(text[position], text[position])
            assert text[position] in "abfnrtvs\\\"'", f"unknown escape \\{text[position]}"
        elif char == quote:
            quote = ""
        elif not quote and char in "\"'":
            quote = char
        else:
            word += char
        position += 1
    assert not quote, "a quote is left open"
    return word, position


def specifiers(word: str) -> str:
    """`%%` is a percent sign; any other specifier would have been expanded."""
    assert not re.search(r"%(?!%)", word.replace("%%", "")), f"a specifier in {word!r}"
    return word.replace("%%", "%")


def variables(word: str) -> str:
    """`$$` is a dollar sign; any other would have been expanded."""
    assert "$" not in word.replace("$$", ""), f"a variable in {word!r}"
    return word.replace("$$", "$")


def exec_start(text: str) -> list[str]:
    """The argv that the unit's only ExecStart= runs."""
    (value,) = directives(text, "Service")["ExecStart"]
    program, *words = [specifiers(word) for word in split_words(value)]
    assert program.startswith("/"), "a prefix, or no absolute path"
    return [program, *(variables(word) for word in words)]


def environment(text: str) -> dict[str, str]:
    """What the unit's Environment= lines set."""
    lines = directives(text, "Service").get("Environment", [])
    words = [specifiers(word) for line in lines for word in split_words(line)]
    return dict(word.split("=", 1) for word in words)
