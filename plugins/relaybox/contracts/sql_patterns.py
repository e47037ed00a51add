"""Regular expressions of JSON Schema (those of JavaScript) as Postgres has them. What means something else there is refused."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"(?P<class>\[\^?(?:\\[dw\\\]\[^.$*+?(){}|/-]|[^\\\[\]])+\])"
    r"|(?P<escape>\\[dDwW.\\^$*+?()\[\]{}|/-])"
    r"|(?P<group>\((?:\?:)?(?!\?))"
    r"|(?P<count>\{(?P<least>[0-9]+)(?:,(?P<most>[0-9]*))?\})"
    r"|(?P<mark>[.^$|)*+?])"
    r"|(?P<plain>[^\\\[\](){}.^$|*+?])"
)
_SETS = {"d": "0-9", "w": "A-Za-z0-9_"}
_MOST_REPEATS = 255
"""As Postgres counts at most."""


class UntranslatablePattern(ValueError):
    """A regular expression that Postgres reads otherwise, or not at all."""


def translate_pattern(pattern: str) -> str:
    """Returns the regular expression of Postgres that is found in the same texts.

    Raises:
        UntranslatablePattern: the message names the character.
    """
    translated, position, may_repeat = [], 0, False
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None or ((token["mark"] in ("*", "+", "?") or token["count"]) and not may_repeat):
            raise UntranslatablePattern(f"{pattern[position : position + 10]!r} at character {position + 1} can't be translated")
        translated.append(_translate(token))
        # what repeats is not repeated once more: Postgres would read *? as another operator
        may_repeat = bool(token["class"] or token["escape"] or token["plain"] or token["mark"] in (".", ")"))
        position = token.end()
    return "".join(translated)


def _translate(token: re.Match[str]) -> str:
    text = token[0]
    if token["count"]:
        if max(int(token["least"]), int(token["most"] or 0)) > _MOST_REPEATS:
            raise UntranslatablePattern(f"{text} repeats more than {_MOST_REPEATS} times")
        return text
    if token["class"]:
        return _translate_class(text)
    if token["escape"]:
        kind = text[1]
        if kind.lower() in _SETS:
            return f"[{'^' if kind.isupper() else ''}{_SETS[kind.lower()]}]"
        return text
    return r"[^\n\r\u2028\u2029]" if text == "." else text


def _translate_class(text: str) -> str:
    """A class in brackets, with each set written out."""
    if re.search(r"\\[dw]-|-\\[dw]|\[[:.=]", text):
        raise UntranslatablePattern(f"{text} can't be translated")
    return re.sub(r"\\([dw])", lambda found: _SETS[found[1]], text)
