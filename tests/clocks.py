"""The suite by other clocks and in another language: `python -m tests.clocks [PYTEST ARGUMENTS]`.

Debian's faketime shifts the clock of every process, the servers included; what counts seconds without a date goes on as it is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from relaybox.local import clusters

SHIFTED = ("LD_PRELOAD", "FAKETIME", "FAKETIME_DONT_FAKE_MONOTONIC")
SELECTION = ("tests/unit", "tests/integration", "tests/airflow")


@dataclass(frozen=True)
class Place:
    """Where and when a run of the suite is.

    Attributes:
        moment: when it begins; None: now.
        zone: TZ of every process.
        language: LC_ALL and LANGUAGE of every process.
    """

    what: str
    moment: datetime | None
    zone: str = "UTC"
    language: str = "C.UTF-8"


PLACES = (
    Place("while Airflow's daily DAGs are due", datetime(2026, 11, 23, 4, 10, tzinfo=UTC)),
    Place("shortly before midnight, the last day of a month", datetime(2027, 2, 28, 23, 59, 50, tzinfo=UTC), "Asia/Kolkata"),
    Place("when daylight saving time begins", datetime(2027, 3, 28, 0, 59, 50, tzinfo=UTC), "Europe/Berlin"),
    Place("when daylight saving time ends", datetime(2027, 10, 31, 0, 59, 50, tzinfo=UTC), "Europe/Berlin"),
    Place(
        "the last seconds of a year that is none elsewhere", datetime(2027, 12, 31, 23, 59, 50, tzinfo=UTC), "Pacific/Auckland"
    ),
    Place("in German", None, "Europe/Berlin", "de_DE.UTF-8"),
)


def surroundings(place: Place, library: Path) -> dict[str, str]:
    """The environment of a run; the shift is fixed here, once for all of its processes."""
    found = {"TZ": place.zone, "LC_ALL": place.language, "LANG": place.language, "LANGUAGE": place.language.partition("_")[0]}
    if place.moment:
        shift = (place.moment - datetime.now(UTC)).total_seconds()
        found |= {"LD_PRELOAD": str(library), "FAKETIME": f"{shift:+.0f}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        found["PYTHONPATH"] = str(Path(__file__).parent / "faked")
    return found


def shift_servers(environment: Mapping[str, str]) -> None:
    """Servers get nothing of a test's environment, but in a shifted run its clock."""
    shift = {name: environment[name] for name in SHIFTED if name in environment}
    if shift:
        plain = clusters._server_environment()  # noqa: SLF001
        clusters._server_environment = lambda: {**plain, **shift}  # noqa: SLF001


def main() -> int:
    """Runs the selection at every place; the code is 1 if a test failed anywhere."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, required=True, help="libfaketimeMT.so.1")
    parser.add_argument("--place", type=int, choices=range(len(PLACES)), help="only this one")
    options, selection = parser.parse_known_args()
    if not any(word.startswith("tests/") for word in selection):
        selection += SELECTION
    chosen = PLACES if options.place is None else PLACES[options.place : options.place + 1]
    return int(any([not is_green for is_green in run(chosen, options.library, selection)]))  # noqa: C419  all of them


def run(places: tuple[Place, ...], library: Path, selection: Sequence[str]) -> Iterator[bool]:
    for place in places:
        print(f"{place.what}: {place.moment or 'now'}, TZ={place.zone}, LC_ALL={place.language}", flush=True)
        command = [sys.executable, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", *selection]
        code = subprocess.run(command, env={**os.environ, **surroundings(place, library)}, check=False).returncode
        yield code == 0


if __name__ == "__main__":
    sys.exit(main())
