"""Release notes: the section of CHANGELOG.md that a version has."""

from __future__ import annotations

import re
from datetime import date

from markdown_it import MarkdownIt

from relaybox.errors import ConfigurationError

HEADING = re.compile(r"\[?(?P<version>[^\s\]]+)\]?(?: - (?P<date>.*))?")
"""Of a section, as "Keep a Changelog" writes it: `## 0.1.0 - 2026-11-24`, the version also in brackets."""

NAMED_SECTIONS = 3
"""An error names the newest sections only."""


def cut_notes(changelog: str, version: str) -> str:
    """The section of a version as a document of its own, in Markdown.

    Raises:
        ConfigurationError: the version has no section, two, an empty one, or one without the day of its release.
    """
    lines = changelog.split("\n")
    tokens = MarkdownIt().parse(changelog)
    starts = [
        (token.map[0], tokens[number + 1].content)
        for number, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag == "h2" and token.map
    ]
    ends = [*(line for line, _ in starts), len(lines)][1:]
    sections = [
        (line, heading, found["date"], end)
        for (line, heading), end in zip(starts, ends, strict=True)
        if (found := HEADING.fullmatch(heading)) and found["version"] == version
    ]
    wanted = f'Head the section of this release "## {version} - YYYY-MM-DD", with the day of the release, and commit.'
    if len(sections) != 1:
        headings = ", ".join(heading for _, heading in starts[:NAMED_SECTIONS]) or "none"
        raise ConfigurationError(
            f"CHANGELOG.md has {len(sections)} sections of version {version}; its sections: {headings}.",
            next_step=wanted,
        )
    ((line, heading, day, end),) = sections
    if not _is_day(day):
        raise ConfigurationError(f'CHANGELOG.md, line {line + 1}: "{heading}" has no day of release.', next_step=wanted)
    text = "\n".join(lines[line + 1 : end]).strip()
    if not text:
        raise ConfigurationError(
            f'CHANGELOG.md, line {line + 1}: the section "{heading}" is empty.',
            next_step="Write what the version adds, changes and removes, and commit.",
        )
    return f"# Relaybox {version}, {day}\n\n{text}\n"


def _is_day(text: str | None) -> bool:
    if not text or not re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
