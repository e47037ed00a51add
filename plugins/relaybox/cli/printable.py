"""Text of applications on a terminal: no control character of theirs reaches it.

Clocks, reasons of a nack, names of sessions and of workers are chosen by applications. With escape
sequences they could clear the screen, hide lines, or write lines of their own.
"""

from __future__ import annotations

import sys
import unicodedata

_KEPT = "\n\t"


def printable(text: str) -> str:
    r"""The same text with control and formatting characters as escapes, `\x1b`; line breaks and tabs stay."""
    if text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def printable_line(text: str) -> str:
    r"""As printable(), for a text that must stay on its line: line breaks are escapes too, `\n`."""
    return printable(text).replace("\n", "\\n")


def print_text(text: str, *, stderr: bool = False) -> None:
    """Writes a text of one or more lines to stdout, or to stderr, as printable() shows it. The CLI prints no text in another way."""
    print(printable(text), file=sys.stderr if stderr else sys.stdout)


def _shown(character: str) -> str:
    # Cc: control; Cf: formatting, such as a change of direction; Zl, Zp: separators of lines
    if character in _KEPT or unicodedata.category(character) not in ("Cc", "Cf", "Zl", "Zp"):
        return character
    return character.encode("unicode_escape").decode("ascii")
