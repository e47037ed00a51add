"""Where mutants are tried: a copy of the repository, three clusters that are kept running, and a pytest that forks for each run.

A bug of a SQL function is put into the copy's file, for tests that run `relaybox init`, and into the template that tests copy their
stores from. Nothing of the checkout is changed.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg2

from relaybox.local.clusters import Cluster
from tests.mutants.mutants import MutantsBrokenError, copied_environment, copy_repository
from tests.mutants.sql_tokens import TokenMutant
from tests.support import stores
from tests.support.memory import fast_temporary_directory
from tests.support.patience import patience

TEMPLATE = "template_store"
HANGS = "a test that hangs"
_FIRST_TEST = "tests/integration/test_pollers.py::test_only_the_routed_backlog_of_a_hop_is_work"
_INLINE = """
do $$ declare f record; begin
    for f in select oid::regprocedure as name from pg_proc
        where pronamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace) and prolang = (select oid from pg_language
            where lanname = 'sql')
    loop execute format('alter function %s {}', f.name); end loop;
end $$
"""


@dataclass(frozen=True)
class Worker:
    """Tries one mutant at a time."""

    directory: Path
    repository: Path
    clusters: Mapping[str, Cluster]
    server: subprocess.Popen[str]

    def first_failure(self, tests: Sequence[str], *options: str, seconds_each: float = 60.0, seconds: float = 600.0) -> str:
        """The first test that fails, HANGS, or an empty text. A test has `seconds_each`, all of them have `seconds`."""
        answer = self.ask(seconds, *options, "--exitfirst", f"--timeout={seconds_each:.0f}", *tests)
        if answer["code"] is None:
            return HANGS
        if answer["code"] not in {0, 1}:
            raise MutantsBrokenError(f"pytest {' '.join(tests)} ended with {answer['code']}:\n{answer['output']}")
        return answer["failed"][0] if answer["failed"] else HANGS if answer["code"] else ""

    def ask(self, seconds: float, *arguments: str) -> dict[str, object]:  # type: ignore[explicit-any]
        """What the server says of one run of pytest."""
        standard = ["--quiet", "--no-header", "-p", "no:cacheprovider"]
        print(json.dumps([patience(seconds), *standard, *arguments]), file=self.server.stdin, flush=True)
        line = self.server.stdout.readline() if self.server.stdout else ""
        if not line:
            raise MutantsBrokenError("the pytest that runs the tests has ended.")
        return json.loads(line)

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Functions that Postgres would inline are kept from it: inlined calls are not counted."""
        self._apply(_INLINE.format("set extra_float_digits = 1"))
        try:
            yield
        finally:
            self._apply(_INLINE.format("reset extra_float_digits"))

    @contextmanager
    def broken(self, function: Path, mutant: TokenMutant) -> Iterator[bool]:
        """Within, stores have the bug. False: it is no SQL, so nobody could have made it."""
        path = next((self.repository / "sql" / "functions").glob(f"*/{function.name}"))
        whole = path.read_text(encoding="utf-8")
        try:
            self._put(path, mutant.text)
        except psycopg2.Error:
            yield False
            return
        try:
            yield True
        finally:
            self._put(path, whole)

    def _put(self, path: Path, text: str) -> None:
        self._apply(
            text,
            "update relaybox_internal.installed_object set digest = %s where kind = 'function' and name = %s",
            (hashlib.sha256(text.encode()).hexdigest(), path.stem),
        )
        path.write_text(text, encoding="utf-8")

    def _apply(self, text: str, *then: object) -> None:
        for cluster in self.clusters.values():
            with closing(psycopg2.connect(**cluster.parameters(TEMPLATE))) as session, session.cursor() as cursor:
                cursor.execute(text)
                if then:
                    cursor.execute(*then)
                session.commit()


@contextmanager
def running_worker(imported: Sequence[str] = ()) -> Iterator[Worker]:
    """A worker with clusters of its own, which count calls of functions. It imports a selection of tests once, before the first run."""
    settings, stores.SETTINGS["track_functions"] = dict(stores.SETTINGS), "all"
    try:
        with (
            fast_temporary_directory("relaybox-mutants-") as directory,
            stores.running_clusters(directory) as clusters,
            worker_in(directory, clusters, imported) as worker,
        ):
            if failed := worker.first_failure([_FIRST_TEST]):  # the first test makes the template
                raise MutantsBrokenError(f"{failed} fails without any mutant.")
            yield worker
    finally:
        stores.SETTINGS.clear()
        stores.SETTINGS.update(settings)


@contextmanager
def worker_in(directory: Path, clusters: Mapping[str, Cluster], imported: Sequence[str] = ()) -> Iterator[Worker]:
    """A worker with a copy of the repository in a directory, and with clusters that are running."""
    stores.write_clusters(directory / "clusters.json", clusters)
    repository = copy_repository(directory / "repository")
    settings = {
        "RELAYBOX_TEST_CLUSTERS": str(directory / "clusters.json"),
        "RELAYBOX_CALLED_FUNCTIONS": str(directory / "called.jsonl"),
        "PYTHONDONTWRITEBYTECODE": "",
    }
    with subprocess.Popen(
        [sys.executable, "-m", "tests.mutants.pytest_server", *imported],
        cwd=repository,
        env=copied_environment(repository) | settings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            yield Worker(directory, repository, clusters, server)
        finally:
            server.terminate()
