"""What is wrong in a relaybox.yaml, in words: every problem with its line, key, value and rule."""

import difflib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

Location = tuple[str | int, ...]
"""Where a value is: mapping keys and list indexes, from the top of the file. The empty tuple is the file itself."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_/-]{1,60}")
_MAX_SHOWN = 80
_MAX_LISTED = 12
_MAX_REPORTED = 100
_MAX_COMPARED = 1_000
_MAY_HOLD_A_SECRET = re.compile(r"=|://|password", re.IGNORECASE)


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in the file; for an unknown name also the name and what would have been known."""

    location: Location
    text: str
    unknown: str = ""
    known: Collection[str] = ()


def report(path: Path, problems: Iterable[Problem], lines: Mapping[Location, int]) -> str:
    """The message of a ConfigurationError: how many problems in which file, then one line per problem, in file order.

    The nearest known name is looked for only where it is written: comparing thousands of names with thousands takes minutes.
    """
    located = sorted(
        ((_line(problem.location, lines), show_location(problem.location), problem) for problem in problems),
        key=lambda entry: entry[:2],
    )
    count = "1 problem" if len(located) == 1 else f"{len(located)} problems"
    shown = [f"{path.name}:{line}: {where}: {_sentence(problem)}" for line, where, problem in located[:_MAX_REPORTED]]
    more = [f"and {len(located) - _MAX_REPORTED} more"] if len(located) > _MAX_REPORTED else []
    return "\n".join([f"{count} in {path}", *shown, *more])


def _sentence(problem: Problem) -> str:
    return f"{problem.text}. {suggest(problem.unknown, problem.known)}" if problem.known else problem.text


def _line(location: Location, lines: Mapping[Location, int]) -> int:
    """The line of a value, or of the nearest section around it where the value itself is missing."""
    while location and location not in lines:
        location = location[:-1]
    return lines.get(location, 1)


def show(value: object) -> str:
    """A value as a message may quote it: pure ASCII, on one line, short, and never a connection string."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a section"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, str) and _MAY_HOLD_A_SECRET.search(value):
        return "a text like a connection string (not shown)"
    shown = json.dumps(value)
    return shown if len(shown) <= _MAX_SHOWN else f"{shown[:_MAX_SHOWN]}..."


def show_location(location: Location) -> str:
    """A location as messages write it, lists counted from 0: `routes.flights.path[2]`."""
    shown = ""
    for part in location:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            shown += ("." if shown else "") + show_name(part)
    return shown or "the file"


def show_name(name: str) -> str:
    """A key, or a name that is one: as it is, or quoted like any other value if it is no plain word."""
    return name if _PLAIN_NAME.fullmatch(name) else show(name)


def suggest(unknown: str, known: Collection[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, if one is near, and what is known."""
    nearest = difflib.get_close_matches(unknown, islice(known, _MAX_COMPARED), n=1)
    question = f"Did you mean {show_name(nearest[0])}? " if nearest else ""
    return f"{question}Known: {_list_names(known)}"


def _list_names(names: Collection[str]) -> str:
    """The names in order; beyond a dozen, how many more there are."""
    shown = [show_name(name) for name in sorted(names)[:_MAX_LISTED]]
    more = [f"and {len(names) - _MAX_LISTED} more"] if len(names) > _MAX_LISTED else []
    return ", ".join(shown + more) or "none"
