"""The rules of the section `payloads`: places of large payloads, which `relaybox payloads` collects.

Looks at the values as they were read: one of a wrong kind is passed over here, and refused by the rule of its key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from relaybox.routes.problems import Problem, show, show_name
from relaybox.routes.raw_values import member

GRACE_SECONDS = 86_400
TRASH_SECONDS = 604_800
LOCATION_RULE = "an absolute path, or s3://bucket/prefix; no blanks, no control characters, no login, no % and no backslash"

_LOCATION = re.compile(r"(/|s3://)[^\s@?#%\\'\"\x00-\x1f\x7f-\x9f\u2028\u2029]{1,900}")


def broken_location(value: object) -> str | None:
    """The rule that a location breaks, or None."""
    is_fine = isinstance(value, str) and _LOCATION.fullmatch(value) and value.rstrip("/") not in {"", "s3:"}
    return None if is_fine and "/../" not in f"{value}/" else LOCATION_RULE


def payload_contradictions(places: Mapping[str, object]) -> Iterator[Problem]:
    """Each place has a location of its own: what one collection keeps, another one would remove."""
    locations: dict[str, str] = {}
    for name, place in places.items():
        location = member(place, "location")
        if not isinstance(location, str):
            continue
        own = location.rstrip("/")
        for other_location, other in locations.items():
            if f"{own}/".startswith(f"{other_location}/") or f"{other_location}/".startswith(f"{own}/"):
                text = f"got {show(location)}, which is, or lies in or around, the location of {show_name(other)}"
                yield Problem(("payloads", name, "location"), f"{text}; expected a location of its own for each place")
        locations.setdefault(own, name)
