"""Single-token bugs in a SQL function: every site where one could be, as the text of the function with that bug.

Comments and refusals (`raise exception ...`) stay as they are: their words decide nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_OTHER_TOKENS = (
    (r"<=", "<"),
    (r">=", ">"),
    (r"(?<![<>=\-@|&!])<(?![=>@])", "<="),
    (r"(?<![<>=\-@|&!])>(?![=>@])", ">="),
    (r" \+ 1\b", ""),
    (r" - 1\b", ""),
    (r"\bleast\(", "greatest("),
    (r"\bgreatest\(", "least("),
    (r"\bmin\(", "max("),
    (r"\bmax\(", "min("),
    (r"'\[\]'", "'[)'"),
    (r"\s+for (no key )?update( of \w)?(?=[;\s])", ""),
    (r"\s+for (key )?share(?=[;\s])", ""),
    (r"\bleft join\b(?! lateral)", "join"),
    (r"\bdesc\b", "asc"),
    (r" is distinct from ", " = "),
    (r"'routed'", "'unrouted'"),
    (r"'unrouted'", "'routed'"),
    (r"'received'", "'settled'"),
    (r"'settled'", "'received'"),
    (r"'processed'", "'settled'"),
    (r"'open', 'redriving'", "'open'"),
)
_UNREAD = re.compile(r"--[^\n]*|raise exception(?:'[^']*'|[^;'])*;")
_WORDS = re.compile(r"'(?![^']*\b(?:select|from|where|drop) )[^']*'")  # and no dynamic statement
_CONDITION = re.compile(r"\b(?:and|where) ")
_CONDITION_ENDS = re.compile(
    r"\s+(and|or|order by|group by|limit|then|for|union|loop|returning|on conflict|cross|left|join|when|else|end|where|having)\b|[;,]|\$\$"
)
_STATEMENT = re.compile(r"^ +(?:perform|update|delete|insert|set local)\b[^;]*;", re.MULTILINE)


@dataclass(frozen=True)
class TokenMutant:
    """A function's text with one bug: the change, the line where it begins, and what is left of that line."""

    change: str
    line_number: int
    line: str
    becomes: str
    text: str

    @property
    def what(self) -> str:
        return f"line {self.line_number}: {self.change}"


def mutate(text: str) -> Iterator[TokenMutant]:
    """All mutants of the file of one function, in no order that means anything."""
    begin = text.index("$$")
    read = _UNREAD.sub(lambda unread: "\0" * len(unread[0]), text)
    for start, end, new, kind in (*_tokens(read), *_coalesces(read), *_conditions(read), *_statements(read)):
        if start > begin and "\0" not in read[start:end]:
            broken = text[:start] + new + text[end:]
            number = text.count("\n", 0, start)
            yield TokenMutant(kind, number + 1, text.splitlines()[number].strip(), broken.splitlines()[number].strip(), broken)


def _tokens(read: str) -> Iterator[tuple[int, int, str, str]]:
    for pattern, new in _OTHER_TOKENS:
        for found in re.finditer(pattern, read):
            yield *found.span(), new, f"{found[0].strip()} -> {new.strip() or 'nothing'}"


def _coalesces(read: str) -> Iterator[tuple[int, int, str, str]]:
    """coalesce(a, b) becomes (a)."""
    for found in re.finditer(r"\bcoalesce\(", read):
        commas = [at for at in _at_depth_zero(read, found.end()) if read[at] == ","]
        end = next(iter(_closing(read, found.end())), None)
        if commas and end is not None:
            yield found.start(), end + 1, f"({read[found.end() : commas[0]]})", "coalesce lost"


def _conditions(read: str) -> Iterator[tuple[int, int, str, str]]:
    """One condition of a `where`, an `if` or a join becomes true. The words of a message are none."""
    wordless = _WORDS.sub(lambda words: "'" * len(words[0]), read)
    for found in _CONDITION.finditer(wordless):
        if re.search(r"between\s+\S+\s*$", wordless[: found.start()]):
            continue
        end = next((at for at in _at_depth_zero(wordless, found.end()) if _CONDITION_ENDS.match(wordless, at)), None)
        if end is None:
            end = next(iter(_closing(wordless, found.end())), len(read))
        yield found.end(), end, "true", f"condition lost: {' '.join(read[found.end() : end].split())[:60]}"


def _statements(read: str) -> Iterator[tuple[int, int, str, str]]:
    for found in _STATEMENT.finditer(read):
        yield *found.span(), "", f"statement lost: {' '.join(found[0].split())[:60]}"


def _at_depth_zero(read: str, start: int) -> Iterator[int]:
    """Where text stands outside any parenthesis that is opened after `start`, until one closes that was opened before."""
    depth = 0
    for at in range(start, len(read)):
        if read[at] in ")]":
            depth -= 1
            if depth < 0:
                return
        elif depth == 0:
            yield at
        if read[at] in "([":
            depth += 1


def _closing(read: str, start: int) -> Iterator[int]:
    """Where the parenthesis closes that was opened before `start`."""
    depth = 0
    for at in range(start, len(read)):
        depth += (read[at] in "([") - (read[at] in ")]")
        if depth < 0:
            yield at
            return
