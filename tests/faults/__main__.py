"""`python -m tests.faults`: every fault at every step, random pairs of faults, and the reliability report."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tests.faults.report import Row, write_report
from tests.faults.sections import SECTIONS, Job, Plan
from tests.faults.sites import Clusters, administer, running_clusters
from tests.support.memory import fast_temporary_directory

EXAMPLES = """
Examples:

  python -m tests.faults                                    everything; an interrupted run is taken up again

  python -m tests.faults --seed 7 --pairs 1000              other producers, other pairs, more of them

  python -m tests.faults --select '*slice.committing-zombie*' --fresh

Exit codes: 0 nothing violated and every failpoint reached; 1 otherwise.
"""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(epilog=EXAMPLES)
def faults(
    *,
    seed: Annotated[int, typer.Option(help="Of the producers, and the first one of the pairs.")] = 1,
    pairs: Annotated[int, typer.Option(help="How many random pairs of faults, changes, restores and settings.")] = 200,
    batch_rows: Annotated[int, typer.Option(help="Messages of a batch; a cell has five batches.")] = 200,
    section: Annotated[list[str] | None, typer.Option(help=f"Only this one of: {', '.join(SECTIONS)}. May be repeated.")] = None,
    select: Annotated[str, typer.Option(help="Only cells whose `section: name` matches this pattern.")] = "*",
    report: Annotated[Path, typer.Option(help="Where the report goes; its JSON beside it.")] = Path("docs/reliability-report.md"),
    wal_prefixes: Annotated[
        Path | None, typer.Option(help="Result of `python -m tests.faults.wal_prefix`, for the report.", exists=True)
    ] = None,
    state: Annotated[Path, typer.Option(help="Finished cells, so that a run can be taken up again.")] = Path(
        ".faults-state.jsonl"
    ),
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget the finished cells.")] = False,
) -> None:
    """Strikes every step of the protocol with every fault, and random pairs of them; writes the reliability report."""
    plan = Plan(seed, pairs, batch_rows)
    jobs = [job for name in section or SECTIONS for job in SECTIONS[name](plan) if fnmatch(job.key, select)]
    if fresh:
        state.unlink(missing_ok=True)
    done = _finished(state, plan)
    with (
        fast_temporary_directory("faults") as directory,
        running_clusters(directory, segment_rows=4 * batch_rows) as sides,
    ):
        _run_all([job for job in jobs if job.key not in done], sides, directory, state, plan=plan, done=done)
        version = administer(sides.clusters["source"], "show server_version")[0][0]
    rows = [done[job.key] for job in jobs]
    write_report(
        rows,
        report,
        command=shlex.join(["python", "-m", "tests.faults", *sys.argv[1:]]),
        postgres=str(version),
        wal_prefixes=wal_prefixes,
    )
    bad = [row for row in rows if not row.is_good]
    for row in bad:
        typer.echo(f"{row.section}: {row.name}: {'; '.join([*row.problems, *row.violations])}", err=True)
    typer.echo(f"{len(rows)} cells, {len(rows) - len(bad)} good, report in {report}")
    raise typer.Exit(1 if bad else 0)


def _run_all(jobs: Sequence[Job], sides: Clusters, directory: Path, state: Path, *, plan: Plan, done: dict[str, Row]) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress, state.open("a", encoding="utf-8") as file:
        task = progress.add_task("cells", total=len(jobs))
        for number, job in enumerate(jobs):
            progress.update(task, description=job.key[:70])
            files = directory / f"cell_{number}"
            row = done[job.key] = _run(job, sides, files, plan)
            shutil.rmtree(files, ignore_errors=row.is_good or not files.exists())
            file.write(json.dumps({"plan": vars(plan), "row": vars(row)}) + "\n")
            file.flush()
            progress.advance(task)


def _run(job: Job, sides: Clusters, directory: Path, plan: Plan) -> Row:
    """A cell that breaks off is a bad cell and ends nothing: its reason is in the report."""
    try:
        result = job.run(sides, directory)
    except Exception as error:  # noqa: BLE001
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return Row(job.section, job.name, plan.seed, 0, job.expected_hits, 0.0, 0.0, 0, 0, 0, {}, [said])
    return Row(
        section=job.section,
        name=job.name,
        seed=result.seed,
        hits=result.hits,
        expected_hits=job.expected_hits,
        seconds=round(result.seconds, 3),
        recovery_seconds=round(max(result.recovery_seconds, default=0.0), 3),
        messages=result.messages,
        batches=result.batches,
        resumed=result.resumed,
        violations=Counter(violation.invariant for violation in result.violations),
        problems=[*result.problems, *map(str, result.violations)],
    )


def _finished(state: Path, plan: Plan) -> dict[str, Row]:
    """Cells that an interrupted run of the same plan has finished; bad ones are run again."""
    if not state.exists():
        return {}
    lines = [json.loads(line) for line in state.read_text(encoding="utf-8").splitlines()]
    rows = [Row(**line["row"]) for line in lines if line["plan"] == vars(plan)]
    return {f"{row.section}: {row.name}": row for row in rows if row.is_good}


if __name__ == "__main__":
    app()
