"""The suite by another clock, in another language, on a busy machine: `python -m tests.support.clocks [OPTIONS] [PYTEST ARGUMENTS]`.

Without --at, --zone, --german and --place it runs all clock settings, one after another, with tests/unit, tests/integration and
tests/airflow, or what the pytest arguments select. With one of them it runs that clock setting; without pytest arguments it then
runs the whole suite so, its thirds side by side as `make test` does.

\b
  make test-clocks                                                      every clock setting
  make test-clocks ARGS="--at 04:10 --german --busy 2"                  the whole suite, at 04:10 UTC, beside two busy loops
  make test-clocks ARGS="--at '2027-10-31 00:59:50' --zone Europe/Berlin tests/airflow"
  make test-clocks ARGS="--place 3 -x tests/unit"                       one of the clock settings below
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from relaybox.local import clusters
from relaybox.local.scratch import scratch_directory
from relaybox.process_lifetime import child_dies_with_parent

SHIFTED = ("LD_PRELOAD", "CLOCK_SHIFT_SECONDS")
SELECTION = ("tests/unit", "tests/integration", "tests/airflow")
SOURCE = Path(__file__).with_name("shifted_clock.c")
BERLIN, GERMAN = "Europe/Berlin", "de_DE.UTF-8"


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


@dataclass(frozen=True)
class MovableClock:
    """How far the clocks of some servers are ahead; it may change while they run."""

    path: Path

    def set(self, seconds: int) -> None:
        """In place: the servers have the file in their memory."""
        with self.path.open("r+b") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))

    def of_a_program(self, seconds: int) -> dict[str, str]:
        """The environment of a program with a clock of its own."""
        shift = float(os.environ.get("CLOCK_SHIFT_SECONDS", "0")) + seconds
        bytecode = str(self.path.with_name("bytecode"))  # as surroundings()
        library = str(self.path.with_name("shifted_clock.so"))
        return {"LD_PRELOAD": library, "CLOCK_SHIFT_SECONDS": f"{shift:.0f}", "PYTHONPYCACHEPREFIX": bytecode}


PLACES = (
    Place("while Airflow's daily DAGs are due", datetime(2026, 11, 23, 4, 10, tzinfo=UTC)),
    Place("shortly before midnight, the last day of a month", datetime(2027, 2, 28, 23, 59, 50, tzinfo=UTC), "Asia/Kolkata"),
    Place("when daylight saving time begins", datetime(2027, 3, 28, 0, 59, 50, tzinfo=UTC), BERLIN),
    Place("when daylight saving time ends", datetime(2027, 10, 31, 0, 59, 50, tzinfo=UTC), BERLIN),
    Place(
        "the last seconds of a year that is none elsewhere", datetime(2027, 12, 31, 23, 59, 50, tzinfo=UTC), "Pacific/Auckland"
    ),
    Place("in German", None, BERLIN, GERMAN),
)


def surroundings(place: Place, library: Path) -> dict[str, str]:
    """The environment of a run; the shift is fixed here, once for all of its processes."""
    found = {"TZ": place.zone, "LC_ALL": place.language, "LANG": place.language, "LANGUAGE": place.language.partition("_")[0]}
    if place.moment:
        shift = (place.moment - datetime.now(UTC)).total_seconds() + float(os.environ.get("CLOCK_SHIFT_SECONDS", "0"))
        found |= {"LD_PRELOAD": str(library), "CLOCK_SHIFT_SECONDS": f"{shift:.0f}"}
        # Bytecode names the time of its source. Beside the source it would be stale for every process without this shift.
        found["PYTHONPYCACHEPREFIX"] = str(library.with_name("bytecode"))
    return found


@contextmanager
def movable_clock() -> Iterator[MovableClock]:
    """A clock for servers that are started in the block."""
    with built_library() as library:
        path = library.with_name("shift")
        path.write_bytes(bytes(8))
        path.chmod(0o644)
        plain = clusters._server_environment  # noqa: SLF001
        moved = {"LD_PRELOAD": str(library), "CLOCK_SHIFT_FILE": str(path)}
        clusters._server_environment = lambda: {**plain(), **moved}  # noqa: SLF001
        try:
            yield MovableClock(path)
        finally:
            clusters._server_environment = plain  # noqa: SLF001


def shift_servers(environment: Mapping[str, str]) -> None:
    """Servers get nothing of a test's environment, but in a shifted run its clock."""
    shift = {name: environment[name] for name in SHIFTED if name in environment}
    if shift:
        plain = clusters._server_environment()  # noqa: SLF001
        clusters._server_environment = lambda: {**plain, **shift}  # noqa: SLF001


@contextmanager
def built_library() -> Iterator[Path]:
    """The shifted clock, compiled for this machine, where the servers' account can read it."""
    compiler = shutil.which("cc") or sys.exit(
        "No C compiler found, which builds the shifted clock: apt-get install gcc libc6-dev"
    )
    with scratch_directory("clock") as directory:
        directory.chmod(0o755)
        library = directory / "shifted_clock.so"
        subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, SOURCE, "-ldl"], check=True)
        library.chmod(0o755)
        yield library


def moment(text: str) -> datetime:
    """A time of today (04:10, 23:59:50) or of a day ("2027-10-31 00:59:50"), in UTC."""
    full = text if "-" in text else f"{datetime.now(UTC):%Y-%m-%d} {text}"
    return datetime.fromisoformat(full).replace(tzinfo=UTC)


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """The options, and what pytest gets."""
    listed = "\n".join(f"  {number}: {place.what}" for number, place in enumerate(PLACES))
    parser = argparse.ArgumentParser(
        prog="python -m tests.support.clocks",
        usage="%(prog)s [OPTIONS] [PYTEST ARGUMENTS]",
        description=str(__doc__).replace("\b\n", ""),
        epilog=f"clock settings:\n{listed}\n\nThe exit code is 0 if every test was green everywhere, else 1.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--at", type=moment, metavar="TIME", help='when it begins, UTC: 04:10, or "2027-10-31 00:59:50"')
    parser.add_argument("--zone", metavar="TZ", help=f"the time zone of every process; UTC by default, in German {BERLIN}")
    parser.add_argument("--german", action="store_true", help=f"LC_ALL={GERMAN}")
    parser.add_argument("--place", type=int, choices=range(len(PLACES)), help="one of the clock settings below")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="number of busy loops beside the tests, a core each")
    parser.add_argument(
        "--third", action="append", default=[], metavar="PATHS", help="of the suite; all other paths are the last"
    )
    return parser.parse_known_args(arguments)


def chosen_places(options: argparse.Namespace) -> tuple[Place, ...]:
    if options.place is not None:
        return (PLACES[options.place],)
    if not (options.at or options.zone or options.german):
        return PLACES
    zone = options.zone or (BERLIN if options.german else "UTC")
    return (Place("the clock setting asked for", options.at, zone, GERMAN if options.german else "C.UTF-8"),)


def chosen_runs(options: argparse.Namespace, selection: Sequence[str]) -> dict[str, Sequence[str]]:
    """The pytest arguments of each run of one clock setting; the runs are side by side."""
    if options.third and not selection and len(chosen_places(options)) == 1:
        named = [third.split() for third in options.third]
        others = [f"--ignore={path}" for paths in named for path in paths]
        return {Path(paths[0]).name: paths for paths in named} | {"others": others}
    paths = [] if any("/" in word for word in selection) else SELECTION
    return {"tests": [*selection, *paths]}


def main(arguments: Sequence[str]) -> int:
    """Runs every clock setting asked for; the code is 1 if a test failed anywhere."""
    options, selection = parse(arguments)
    runs = chosen_runs(options, selection)
    with built_library() as library, busy_loops(options.busy):
        outcomes = [visit(place, library, runs) for place in chosen_places(options)]
    return 0 if all(outcomes) else 1


def visit(place: Place, library: Path, runs: Mapping[str, Sequence[str]]) -> bool:
    """Runs everything with one clock setting, and says which runs were green."""
    began = time.monotonic()
    print(f"== {place.what}: {place.moment or 'now'}, TZ={place.zone}, LC_ALL={place.language}", flush=True)
    environment = {**os.environ, **surroundings(place, library), "PYTHONUNBUFFERED": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    codes: dict[str, int] = {}

    def follow(name: str) -> None:
        codes[name] = run(name, runs[name], environment)

    threads = [threading.Thread(target=follow, args=[name]) for name in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    red = [f"{name} (exit code {codes.get(name)})" for name in runs if codes.get(name) != 0]
    minutes = (time.monotonic() - began) / 60
    print(f"== {place.what}: {'red: ' + ', '.join(red) if red else 'green'}, after {minutes:.1f} minutes", flush=True)
    return not red


def run(name: str, selection: Sequence[str], environment: Mapping[str, str]) -> int:
    """One pytest; each line that it prints comes with its name."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *selection]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace"
    ) as process:
        for line in process.stdout or ():
            print(f"{name} | {line}", end="", flush=True)
    return process.returncode


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Processes that want a core each for as long as the block lasts."""
    with ExitStack() as stack:
        for _ in range(count):
            loop = subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=child_dies_with_parent())  # noqa: PLW1509
            stack.callback(loop.wait)
            stack.callback(loop.kill)
        yield


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
