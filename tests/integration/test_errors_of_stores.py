"""Every error of a store is one of ours, retried or told at once; none is passed over."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from psycopg2 import errorcodes

import relaybox
from relaybox import errors
from relaybox.hops import transfer
from relaybox.hops.batches import Slice
from relaybox.hops.copying import SliceCopied, SliceJob, copy_slice
from relaybox.hops.transfer import transfer_hop
from relaybox.local.clusters import Cluster, create_cluster, write_service_file
from relaybox.stores.sessions.connections import connect, translate
from tests.support.breaking import copy_first_slices
from tests.support.patience import patience
from tests.support.world import World, wait_until

RETRIED_CLASSES = {
    "08": "connection exception",
    "40": "transaction rollback: serialization, deadlock",
    "53": "insufficient resources: disk, memory, connections",
    "57": "operator intervention: shutdown, cancel",
    "58": "system error: I/O",
    "72": "snapshot too old",
}
RETRIED_CODES = {"25P03", "25P04", "55006", "55P03"}
"""Of classes that are told at once: two timeouts that end a session, a table in use, a lock that was not free."""

TOLD_CODES = {"57P04", "58P01", "58P02", "58P03"}
"""Of classes that are retried: the database was dropped, files of the server are gone or not its own."""

TOLD_CLASSES = {
    "01", "02", "03", "09", "0A", "0B", "0F", "0L", "0P", "0Z", "10", "20", "21", "22", "23", "24", "25", "26", "27", "28",
    "2B", "2D", "2F", "34", "38", "39", "3B", "3D", "3F", "42", "44", "54", "55", "F0", "HV", "P0", "XX",
}  # fmt: skip

_NAMED_CODES = {code for name, code in vars(errorcodes).items() if name.isupper() and isinstance(code, str) and len(code) == 5}
ALL_CODES = sorted(_NAMED_CODES - {"00000"})  # success


def test_every_class_of_postgres_was_thought_of() -> None:
    """A class that a newer psycopg2 knows needs a decision, not a default."""
    assert {code[:2] for code in ALL_CODES} == RETRIED_CLASSES.keys() | TOLD_CLASSES
    assert RETRIED_CLASSES.keys().isdisjoint(TOLD_CLASSES)


def test_every_sqlstate_is_retried_or_told(world: World) -> None:
    """What a retry may repair is transient; everything else is terminal, so that nobody waits for it. Raised by a real server."""
    found = {}
    with world.session("hub", autocommit=True) as connection, connection.cursor() as cursor:
        for code in ALL_CODES:
            with pytest.raises(psycopg2.Error) as raised:
                cursor.execute(f"do $$ begin raise exception 'words' using errcode = '{code}'; end $$")
            ours = translate(raised.value, store="hub", doing="testing")
            assert code in str(ours)
            found[code] = isinstance(ours, errors.Transient)
            assert isinstance(ours, errors.Transient) != isinstance(ours, errors.Terminal)
    assert found == {
        code: code in RETRIED_CODES or (code[:2] in RETRIED_CLASSES and code not in TOLD_CODES) for code in ALL_CODES
    }


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A server of its own, that a test may stop, reachable by the service names `store` and `crowd`."""
    cluster = create_cluster("alone", tmp_path / "cluster", settings={})
    cluster.start()
    parameters = cluster.parameters()
    services = {
        "store": parameters,
        "crowd": {**parameters, "user": "crowd", "password": "crowd"},
        "wrong-password": {**parameters, "password": "wrong"},
        "wrong-database": {**parameters, "dbname": "nowhere"},
        "wrong-role": {**parameters, "user": "nobody"},
        "barred": {**parameters, "user": "barred", "password": "barred"},
        "nobody-there": {**parameters, "port": "1"},
    }
    write_service_file(tmp_path / "services.conf", services)
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services.conf"))
    try:
        with closing(psycopg2.connect(service="store")) as connection, connection, connection.cursor() as cursor:
            cursor.execute("create role crowd login password 'crowd' connection limit 1")
            cursor.execute("create role barred nologin password 'barred'")
        yield cluster
    finally:
        cluster.remove()


def test_a_refused_connection_is_told_where_only_a_person_can_help(cluster: Cluster) -> None:
    """Wrong password, database, role: terminal. Too many connections, nobody there, a server that stops: transient."""
    for service in ("wrong-password", "wrong-database", "wrong-role", "barred"):
        with pytest.raises(errors.StoreUnusable, match="refused the connection"):
            connect(service, application_name="test")
    with pytest.raises(errors.StoreUnreachable, match="Connection refused"):
        connect("nobody-there", application_name="test")
    with (
        closing(connect("crowd", application_name="first")),
        pytest.raises(errors.StoreUnreachable, match="too many connections"),
    ):
        connect("crowd", application_name="second")


def test_a_server_that_is_stopping_or_recovering_is_worth_a_retry(cluster: Cluster) -> None:
    """57P03 before a session exists has no SQLSTATE in libpq; it is never taken for a wrong password."""
    said: list[str] = []

    def refused() -> bool:
        try:
            connect("store", application_name="late").close()
        except errors.StoreUnreachable as error:
            said.append(str(error))
        return bool(said)

    with ThreadPoolExecutor(1) as pool:
        with closing(connect("store", application_name="last")):
            stopping = pool.submit(cluster.stop, "smart")
            wait_until(refused, "the server takes no new sessions")
        stopping.result(patience(30))
    assert "shutting down" in said[0]


def test_a_superseded_driver_whose_publish_was_refused_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own failed statement does not keep it from asking the destination, and from taking the batch over again."""
    monkeypatch.setattr(transfer, "SUPERSEDED_WAIT_SECONDS", 0.3)
    world.send("a", "b")

    class NewerDriverFirst:
        """Copies nothing while a newer driver takes the batch and dies; the next time, all."""

        asked = 0
        application = None

        def copy_slices(self, order: SliceJob, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
            self.asked += 1
            if self.asked == 1:
                copy_first_slices(world.first_hop, 0)
                return
            yield from (copy_slice(order, slice_) for slice_ in slices)

    runner = NewerDriverFirst()
    transfer_hop(world.first_hop, runner, recorded_by="test")
    assert runner.asked == 2
    assert world.payloads() == ["a", "b"]


ALLOWED = {
    "monitoring/doctor/adopted_tables.py _compare AdoptionRefused": "that the table is gone, or has another name, is a result of the same check",
    "local/bench/growth_driver.py _status (FileNotFoundError, ProcessLookupError)": "a process that ended has no memory",
    "local/bench/steady.py _private_bytes (FileNotFoundError, ProcessLookupError)": "a process that ended has no memory",
    "monitoring/doctor/schemas.py check_owner errors.StoreUnusable": "the check schema of the same examination tells it",
    "airflow/head_start.py _move SparkHasStarted": "Spark resumes what the threads leave",
    "local/bench/slow_link.py SlowLink._accept OSError": "the listener was closed: the measurement is over",
    "local/bench/slow_link.py _close suppress(OSError)": "the other end has closed it before",
    "local/bench/slow_link.py _forward suppress(OSError)": "either end was closed: so is the other",
    "stores/binary_copy/frame_relay.py FrameRelay._drop_notices BlockingIOError": "it waits for the rest, until the limit",
    "airflow/page/permissions.py _host_of ValueError": "what is no address is no origin: the request is refused",
    "airflow/page/store_overview.py StoreOverview.paused_dags (HTTPException, SQLAlchemyError)": "stores are shown also while Airflow is late",
    "airflow/page/store_overview.py _version FileNotFoundError": "reading the file tells",
    "airflow/page/store_overview.py StoreOverview._streams_of HTTPException": "the page names the store, and shows the others",
    "airflow/page/asgi.py MountedPage.__call__ NoTurnError": "the request is answered with 503",
    "airflow/page/store_parameters.py read_store_parameters (AirflowNotFoundException, ConfigurationError)": "asking the store tells",
    "cli/verification.py _verify suppress(ComparisonTooLarge)": "what is too large for threads is compared by Spark next",
    "consumer/stopping.py StopEvent.set suppress(OSError)": "the wait that it would end has ended",
    "aio/loop.py Consumer._in_time suppress(TimeoutError, errors.RelayboxError)": "the lease ends by itself",
    "aio/loop.py Consumer._wait suppress(TimeoutError)": "the rest is over",
    "aio/loop.py _Messages.__anext__ StepsEnded": "the loop is over",
    "consumer/loop.py Consumer._messages StopIteration": "the loop is over",
    "consumer/core.py ConsumerCore._leave suppress(errors.RelayboxError)": "the body's error is the one to tell; the lease ends by itself",
    "django/admin.py _may_read OperationalError": "the page of the model tells that the database can't be reached",
    "clients/django.py DjangoSession.rollback (DatabaseError, InterfaceError)": "as of SQLAlchemy",
    "clients/sqlalchemy.py AsyncSqlalchemySession.close suppress(DBAPIError)": "a session that is broken is closed already",
    "clients/sqlalchemy.py AsyncSqlalchemySession.rollback DBAPIError": "as in a thread",
    "clients/sqlalchemy.py SqlalchemySession.close suppress(DBAPIError)": "a session that is broken is closed already",
    "clients/sqlalchemy.py SqlalchemySession.discard suppress(DBAPIError)": "a session that is broken is ended already",
    "clients/sqlalchemy.py SqlalchemySession.rollback DBAPIError": "a session that is broken has rolled back by itself, and is closed",
    "consumer/core.py ConsumerCore._release suppress(errors.RelayboxError)": "the lease ends by itself",
    "local/bench/cpu_times.py _name (FileNotFoundError, ProcessLookupError)": "a process that ended has no name",
    "local/bench/page.py _ApiServer._answers errors.StackFailed": "no answer is the answer: not up yet",
    "local/bench/unwell_link.py UnwellLink._accept OSError": "the listener was closed: the measurement is over",
    "local/bench/unwell_link.py UnwellLink._serve OSError": "the client's link is closed: that tells",
    "local/bench/unwell_link.py _close suppress(OSError)": "the other end has closed it before",
    "local/bench/unwell_link.py _forward suppress(OSError)": "either end was closed: so is the other",
    "monitoring/metrics.py read_metrics_of errors.RelayboxError": "relaybox_store_up and relaybox_hop_error tell",
    "monitoring/overview.py _look errors.RelayboxError": "the next look at the store's status tells",
    "airflow/service_file.py _remove_leftovers suppress(OSError)": "a leftover that another task removed first",
    "local/airflow_client.py AirflowClient.is_healthy StackFailed": "no answer is the answer: not healthy yet",
    "local/binaries.py _can_execute PermissionError": "no permission is the answer: it can't",
    "local/binaries.py _is_ours FileNotFoundError": "no directory is the answer: it is not ours",
    "local/binaries.py _reachable_copy OSError": "another process made the copy first; checked whose it is",
    "local/clusters.py Cluster._pid_file_lines FileNotFoundError": "no file is the answer: no server",
    "local/demo/run.py run_demo suppress(KeyboardInterrupt)": "Ctrl-C is how a demo ends",
    "local/guard.py _next_dead ChildProcessError": "nothing is left to bury",
    "local/guard.py _bury_dead ChildProcessError": "no child is the answer: none left",
    "local/java.py java_version (FileNotFoundError, NotADirectoryError, PermissionError)": "no Java here is an answer",
    "local/processes.py working_directory (FileNotFoundError, ProcessLookupError, PermissionError)": "a process that has gone",
    "local/processes.py _stat_fields (FileNotFoundError, ProcessLookupError)": "a process that has gone",
    "local/scratch.py _remove_unowned (BlockingIOError, FileNotFoundError)": "it has an owner, or its files are being removed",
    "local/scratch.py _remove_unowned (FileNotFoundError, NotADirectoryError)": "removed meanwhile, or none of ours",
    "local/scratch.py _looks_older FileNotFoundError": "removed meanwhile",
    "local/processes.py send_signal ProcessLookupError": "a process that has gone needs no signal",
    "local/demo/producers.py produce suppress(EOFError, ConnectionError)": "the parent that would read the report has gone",
    "stores/parallel_reads/deadlines.py Inquiry.end suppress(OSError)": "the session ended before it was cut",
    "monitoring/doctor/disk.py _is_directory_of OSError": "a directory that can't be read is the answer: the disk is not known",
    "local/pgbouncer.py PgBouncer._answers psycopg2.OperationalError": "no connection is the answer: it does not listen yet",
    "airflow/store_watch.py _notified TimeoutError": "no notification came: the answer",
    "airflow/credential_renewal.py Renewals._renew TimeoutError": "becomes the failure that the session is told",
    "spark/frames/ranges.py pin_message NoLongerKept": "returns that the store keeps the message no more",
    "spark/frames/ranges.py pin_message Detached": "the message is read from its files",
    "spark/frames/ranges.py _pin_in_files NoLongerKept": "returns that the store keeps the message no more",
    "routes/start_rules.py _is_time ValueError": "no such day is the answer: the rule is told",
    "spark/derivations/ledger.py rolled_back_after_errors suppress(RelayboxError)": "the first error of a lost session is raised",
    "spark/derivations/source.py _text (ImportError, ValueError)": "a machine without the module has nothing to compare",
    "spark/frames/stream_reader.py  ImportError": "pyspark before 4.2 has no limits of a micro-batch: docs/spark.md says so",
    "spark/lake/delta_table.py DeltaLakeTable.load TableNotFoundError": "there is no table yet: the caller is told so",
    "spark/lake/files.py remove_files suppress(FileNotFoundError)": "another run has removed it: nothing is left to do",
    "spark/lake/new_files.py _link_file FileExistsError": "the answer: another one has created it",
    "spark/lake/new_files.py _put_object exceptions.AlreadyExistsError": "the answer: another one has created it",
    "spark/lake/iceberg_table.py IcebergLakeTable.load (NoSuchTableError, NoSuchNamespaceError)": "there is no table yet: the caller is told so",
    "stores/sessions/certificates.py _shake_hands TimeoutError": "a server that is silent after the handshake accepts the certificate",
    "airflow/page/store_overview.py StoreOverview._metrics_of HTTPException": "relaybox_store_up says what the store did not answer",
    "airflow/page/store_overview.py StoreOverview._read_last_runs (HTTPException, SQLAlchemyError)": "the page shows the stores all the same",
    "airflow/page/store_overview.py StoreOverview._report_of HTTPException": "the page names the store as waiting, and shows the others",
    "airflow/kept_routes.py _parse ValueError": "what is no JSON was not kept by us: the error says so",
    "exact_json.py read_json RecursionError": "read again without recursion",
    "routes/sink_rules.py broken_url ValueError": "the rule that is broken is the answer",
    "cloudevents.py is_json (ValueError, RecursionError)": "a payload that is no JSON is sent as a text",
    "testing/clusters.py _remove_old suppress(FileNotFoundError)": "another run has removed it: nothing is left to do",
    "sinks/http_answers.py _read_date (ValueError, OverflowError)": "a pause that can't be read is chosen here; the answer itself is the reason that is recorded",
    "sinks/kafka.py KafkaSender._produce BufferError": "what the producer has sent makes room: it is given the message again",
    "sinks/signatures.py read_secret ValueError": "told as a secret that is no base64",
    "sinks/subscribing.py _subscribe errors.AlreadySubscribed": "another run was faster: the subscription is there",
    "sinks/webhooks.py WebhookSender._post TimeoutError": "the limit that was reached is the reason that is recorded",
    "exact_json.py write_json (TypeError, RecursionError)": "written again without recursion, which raises for what is no JSON",
    "exact_json.py _integer ValueError": "a number of too many digits for int is a Decimal",
    "local/scratch.py make_scratch FileNotFoundError": "the directory was taken for abandoned before it was open: another one is made",
    "stores/sessions/credentials.py _ask FileNotFoundError": "no socket is the answer: the owner of the service file renews it",
    "stores/sessions/credentials.py _directory OSError": "no directory is the answer: libpq tells what is wrong with the service file",
    "stores/sessions/service_files.py has_section OSError": "a file that can't be read has no section; opening the session tells",
    "stores/sessions/service_files.py correct_service OSError": "a file that can't be read is the answer: its next step",
    "stores/binary_copy/frame_relay.py FrameRelay._peek OSError": "libpq meets the same error of the socket, and tells it",
    "stores/binary_copy/frame_relay.py FrameRelay._send BlockingIOError": "waits until the socket takes more",
    "stores/binary_copy/pipe.py CopySender.run BrokenPipeError": "the receiving side ended first, and its error is the one told",
    "clients/asyncpg.py AsyncpgSession.close InternalClientError": "the session that was to be closed has been ended by the server",
    "clients/raw.py is_closed InterfaceError": "a connection that its pool has taken back is closed, and that is the answer",
    "contracts/sql_check.py list_patterns UntranslatablePattern": "nothing refers to it: write_function() refuses each that is used",
    "contracts/evolution.py _matches re.error": "a pattern that Python can't read may match any name: that is told as a break",
    "contracts/evolution.py list_breaks (_TooLargeError, RecursionError)": "told as a break: the versions can't be compared",
    "contracts/evolution.py list_breaks (AttributeError, TypeError)": "told as a break: a part is no JSON Schema",
    "payloads/checking.py _compare_content FileNotFoundError": "the file is told as missing",
    "payloads/files.py DirectoryFiles._below suppress(FileNotFoundError)": "another collection has removed the empty folder",
    "payloads/files.py DirectoryFiles._below FileNotFoundError": "the file was moved: the next listing has it where it is",
    "payloads/files.py DirectoryFiles._write_partial FileNotFoundError": "a collection has removed the empty folder: made again",
    "payloads/files.py DirectoryFiles.create FileExistsError": "the answer is False: who was first has made it",
    "payloads/files.py DirectoryFiles.move FileNotFoundError": "the answer is False, unless the folder of the target is gone: tried again",
    "payloads/files.py DirectoryFiles.remove FileNotFoundError": "the answer is False",
    "payloads/files.py DirectoryFiles.remove_empty_folders suppress(OSError)": "a folder that has files stays",
    "payloads/files.py _write_flushed suppress(OSError)": "the error of the write itself is raised",
    "payloads/object_files.py ObjectFiles.create exceptions.AlreadyExistsError": "the answer is False: who was first has made it",
    "payloads/object_files.py ObjectFiles.move _GONE": "the answer is False",
    "payloads/object_files.py ObjectFiles.remove _GONE": "the answer is False",
    "payloads/references.py parse_time ValueError": "what is no time is no name of a file of ours: nothing touches it",
    "payloads/store.py PayloadStore.has_mark FileNotFoundError": "the answer is False",
    "recovery/rebuilding.py _look errors.StoreNotInitialised": "an empty database is what a lost store begins with: it knows of nothing",
    "retention/segments.py _count psycopg2.errors.LockNotAvailable": "a hop that is busy is left for the next run",
    "routes/file.py _ValueReader._scalar ValueError": "recorded as a problem of the file",
    "hops/progress.py _report RelayboxError": "a line of the log is left out: the copy itself tells what is wrong with the store",
    "hops/slice_sessions.py SliceSessions._take StoreUnreachable": "a new session takes its place, and tells what is wrong with the store",
    "hops/slice_sessions.py _ends_transaction StoreUnreachable": "the session is not kept; its slice is committed",
    "hops/transfer.py _Run._plan errors.PlanRefused": "confirms and plans again, three times; the fourth is told",
}
"""Handlers that neither raise nor look at what they caught, and why that is right."""


def test_no_error_is_passed_over_in_silence() -> None:
    """A handler raises, or uses what it caught; the few that do neither are named here with their reason."""
    root = Path(relaybox.__file__).parent
    found = [
        handler
        for path in sorted(root.rglob("*.py"))
        for handler in _silent_handlers(ast.parse(path.read_text()), path.relative_to(root))
    ]
    assert sorted(found) == sorted(ALLOWED)


def test_every_broad_except_raises_again() -> None:
    """`except:`, `except Exception` and `except BaseException` end with `raise`, where the code that raised is ours."""
    root = Path(relaybox.__file__).parent
    wide = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in sorted(root.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler)
        # what a consumer's handler raises is the reason with which its message is refused; what an asker raises goes to who waits;
        # what a team's callback raises is a warning, and it is called again; what a call of steps raises is told to the steps
        and str(path.relative_to(root))
        not in (
            "aio/loop.py",
            "clients/steps.py",
            "consumer/loop.py",
            "stores/parallel_reads/deadlines.py",
            "airflow/operators/look.py",
        )
        and (node.type is None or {"Exception", "BaseException"} & _names(node.type))
        and not isinstance(node.body[-1], ast.Raise)
    ]
    assert wide == []


def test_the_search_for_silent_handlers_finds_them() -> None:
    """The lint itself can fail."""
    silent = """
def f():
    try:
        g()
    except ValueError as error:
        return None
    with contextlib.suppress(Exception):
        g()
"""
    told = "def f():\n    try:\n        g()\n    except ValueError as error:\n        return str(error)\n"
    assert list(_silent_handlers(ast.parse(silent), Path("x.py"))) == ["x.py f ValueError", "x.py f suppress(Exception)"]
    assert list(_silent_handlers(ast.parse(told), Path("x.py"))) == []


def test_a_stream_cut_in_the_middle_of_a_copy_is_worth_a_retry() -> None:
    """psycopg2 has neither a SQLSTATE nor a class of its own for it."""
    error = psycopg2.DatabaseError("error with status PGRES_COPY_OUT and no message from the libpq")
    assert isinstance(translate(error, store="airline", doing="copying"), errors.StoreUnreachable)
    misuse = psycopg2.ProgrammingError("no results to fetch")
    assert isinstance(translate(misuse, store="airline", doing="copying"), errors.StoreFailed)


def _silent_handlers(tree: ast.AST, path: Path, within: tuple[str, ...] = ()) -> Iterator[str]:
    """`file function what` of every handler that neither raises nor uses its error, and of every suppress()."""
    for node in ast.iter_child_nodes(tree):
        stream_position = f"{path} {'.'.join(within)}"
        if isinstance(node, ast.ExceptHandler) and not _tells(node):
            yield f"{stream_position} {ast.unparse(node.type) if node.type else 'everything'}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            yield f"{stream_position} suppress({', '.join(map(ast.unparse, node.args))})"
        named = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        yield from _silent_handlers(node, path, (*within, node.name) if named else within)


def _tells(handler: ast.ExceptHandler) -> bool:
    nodes = [node for statement in handler.body for node in ast.walk(statement)]
    return any(isinstance(node, ast.Raise) or (isinstance(node, ast.Name) and node.id == handler.name) for node in nodes)


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
