"""Stores that admit a login by its certificate only, and are checked by their own (`verify-full`), with an authority of the test's own."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing, closing
from dataclasses import dataclass
from pathlib import Path

import psycopg2
import pytest

from relaybox import errors
from relaybox.airflow.page.store_parameters import read_store_parameters
from relaybox.airflow.service_file import service_file
from relaybox.airflow.store_watch import WORK_OF_HOPS, poll_store
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import Progress, transfer_hop
from relaybox.local.clusters import Cluster, create_cluster, write_service_file
from relaybox.routes import Store, Watch
from relaybox.spark.runner import SparkRunner
from relaybox.spark.tasks import ContextSession
from relaybox.stores.parallel_reads.deadlines import Inquiry
from relaybox.stores.sessions.connections import connect
from relaybox.verification.route_verification import verify_route
from tests.support.certificates import EXPIRED, Authority
from tests.support.memory import fast_temporary_directory
from tests.support.patience import Deadline, patience
from tests.support.postgres_versions import package_versions, server_binaries
from tests.support.spark_session import spark_session
from tests.support.world import STORES, World, routes_file, wait_until

pytestmark = pytest.mark.thorough

ALL = [Store(name=store, service=store, connection=f"relaybox_{store}") for store in STORES]
LOGIN = "mover"
Serve = Callable[[Mapping[str, Mapping[str, str]]], None]
HOST = "store.example"  # a name that no resolver is asked for: hostaddr has the address


@dataclass
class TlsServer:
    """A server of all three stores; the wheel's is built without TLS, hence one of the npm packages."""

    cluster: Cluster
    authority: Authority

    def present(self, **certificate: object) -> None:
        """Has the server show another certificate."""
        for source in self.authority.issue("server", **{"hosts": (HOST,), **certificate}):  # type: ignore[arg-type]
            target = self.cluster.directory / f"server{source.suffix}"
            fresh = target.with_suffix(".new")
            shutil.copyfile(source, fresh)
            fresh.chmod(0o600)
            shutil.chown(fresh, *_owner(self.cluster.directory))
            fresh.replace(target)

    def reload(self) -> None:
        """Returns when new sessions get the certificate that is in the files."""
        self.administer("select pg_reload_conf()")

    def administer(self, statement: str) -> None:
        with closing(psycopg2.connect(**self.cluster.parameters(), sslmode="disable")) as session:
            session.autocommit = True
            with session.cursor() as cursor:
                cursor.execute(statement)

    def parameters(self, store: str) -> dict[str, str]:
        certificate, key = self.authority.directory / f"{LOGIN}.crt", self.authority.directory / f"{LOGIN}.key"
        return {
            "host": HOST,
            "hostaddr": "127.0.0.1",
            "port": str(self.cluster.port),
            "dbname": store,
            "user": LOGIN,
            "sslmode": "verify-full",
            "sslrootcert": str(self.authority.root),
            "sslcert": str(certificate),
            "sslkey": str(key),
        }


def _owner(directory: Path) -> tuple[int, int]:
    found = directory.stat()
    return found.st_uid, found.st_gid


@pytest.fixture
def tls_server(tmp_path: Path) -> Iterator[TlsServer]:
    with fast_temporary_directory("tls") as directory:
        settings = {"ssl": "on", "ssl_ca_file": "root.crt", "max_prepared_transactions": "10"}
        cluster = create_cluster("tls", directory / "tls", settings=settings, binaries=server_binaries(max(package_versions())))
        server = TlsServer(cluster, Authority(tmp_path / "ours"))
        server.present()
        shutil.copyfile(server.authority.root, cluster.directory / "root.crt")
        shutil.chown(cluster.directory / "root.crt", *_owner(cluster.directory))
        (cluster.directory / "pg_hba.conf").write_text(
            "hostssl all all 127.0.0.1/32 cert\nhostnossl all relaybox 127.0.0.1/32 scram-sha-256\n"
        )
        cluster.start()
        try:
            server.administer(f"create role {LOGIN} superuser login")
            for store in STORES:
                server.administer(f"create database {store} owner {LOGIN}")
            server.authority.issue(LOGIN)
            yield server
        finally:
            cluster.remove()


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Writes the service file; no file of the user's own has certificates."""

    def write(services: Mapping[str, Mapping[str, str]]) -> None:
        write_service_file(tmp_path / "services.conf", services)
        monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services.conf"))
        monkeypatch.setenv("HOME", str(tmp_path))

    return write


@pytest.fixture
def world(tls_server: TlsServer, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """All its sessions log in with a certificate; Airflow's connections have no password."""
    services = {store: tls_server.parameters(store) for store in STORES}
    serve(services)
    monkeypatch.setenv("RELAYBOX_CONFIG", str(routes_file(tmp_path)))
    for store, parameters in services.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_RELAYBOX_{store.upper()}", json.dumps(_fields(parameters)))
    world = World(tmp_path / "relaybox.yaml")
    world.initialise()
    return world


def _fields(parameters: Mapping[str, str]) -> dict[str, object]:
    extras = {name: value for name, value in parameters.items() if name.startswith("ssl") or name == "hostaddr"}
    fields = {"host": parameters["host"], "port": int(parameters["port"]), "login": LOGIN, "schema": parameters["dbname"]}
    return {"conn_type": "postgres", **fields, "extra": extras}


def transfer(world: World) -> None:
    with service_file(ALL):
        transfer_hop(world.first_hop, ThreadRunner(2), recorded_by="test")


def test_spark_workers_log_in_with_a_client_certificate(world: World) -> None:
    """They have the paths of the files from the task's service file: no password is anywhere."""
    world.send("a", "b", "c")
    with spark_session("local[2]") as context, service_file(ALL) as path:
        context.environment["PGSERVICEFILE"] = str(path)
        assert "password" not in path.read_text()
        done = transfer_hop(world.first_hop, SparkRunner(ContextSession(context)), recorded_by="test")
    assert done.row_count == 3
    with world.session("hub") as session, session.cursor() as cursor:
        cursor.execute("select client_dn, version from pg_stat_ssl where pid = pg_backend_pid()")
        assert cursor.fetchone() == (f"/CN={LOGIN}", "TLSv1.3")
    assert world.payloads() == ["a", "b", "c"]


@pytest.mark.parametrize("is_planned", [False, True], ids=["before_the_plan", "after_the_plan"])
def test_a_client_certificate_that_expired_loses_nothing(world: World, tls_server: TlsServer, is_planned: bool) -> None:
    """The error says so and is no retry; with a new certificate in the same files, the next run goes on."""

    def expire(progress: Progress | None = None) -> None:
        if progress is None or not progress.published:
            tls_server.authority.issue(LOGIN, ends_in=EXPIRED)

    world.send("a", "b", "c")
    if not is_planned:
        expire()
    with (
        service_file(ALL),
        pytest.raises(errors.StoreUnusable, match="refused the client's certificate: certificate expired") as refused,
    ):
        transfer_hop(world.first_hop, ThreadRunner(2), recorded_by="test", progress=expire)
    assert "openssl x509 -noout -subject -enddate" in refused.value.next_step
    tls_server.authority.issue(LOGIN)
    transfer(world)
    world.transfer_all()
    assert world.payloads("flights/2") == ["a", "b", "c"]
    assert verify_route(world.route).outcome == "delivered"


def test_a_server_certificate_that_expired_loses_nothing(world: World, tls_server: TlsServer) -> None:
    world.send("a", "b", "c")
    tls_server.present(ends_in=EXPIRED)
    tls_server.reload()
    wait_until(lambda: not _admits("hub"), "the server shows its new certificate")
    with pytest.raises(errors.StoreUnusable, match="the server's certificate is not accepted: certificate has expired"):
        transfer(world)
    tls_server.present()
    tls_server.reload()
    wait_until(lambda: _admits("hub"), "the server shows its new certificate")
    transfer(world)
    assert world.payloads() == ["a", "b", "c"]


def _admits(store: str) -> bool:
    try:
        psycopg2.connect(service=store).close()
    except psycopg2.OperationalError:
        return False
    return True


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("expired", "refused the client's certificate: certificate expired"),
        ("foreign", "refused the client's certificate: unknown ca"),
        ("host", "the server's certificate is not accepted: Hostname mismatch"),
        ("root", "the server's certificate is not accepted: self.signed certificate"),
        ("login", "the server refused the connection: .*certificate authentication failed"),
        ("none", "the server refused the connection: .*requires a valid client certificate"),
    ],
)
def test_each_wrong_certificate_is_no_retry_and_named(
    tls_server: TlsServer, serve: Serve, fault: str, said: str, version: str
) -> None:
    """In TLS 1.3 a server refuses a certificate after the client has done its part of the handshake."""
    parameters = {**tls_server.parameters("hub"), "ssl_min_protocol_version": version, "ssl_max_protocol_version": version}
    theirs = Authority(tls_server.authority.directory / "theirs")
    if fault == "expired":
        tls_server.authority.issue(LOGIN, ends_in=EXPIRED)
    elif fault == "foreign":
        parameters |= dict(zip(("sslcert", "sslkey"), map(str, theirs.issue(LOGIN)), strict=True))
    elif fault == "host":
        parameters["host"] = "other.example"
    elif fault == "root":
        parameters["sslrootcert"] = str(theirs.root)
    elif fault == "login":
        parameters |= dict(zip(("sslcert", "sslkey"), map(str, tls_server.authority.issue("other")), strict=True))
    else:
        del parameters["sslcert"], parameters["sslkey"]
    serve({"hub": parameters})
    with pytest.raises(errors.StoreUnusable, match=said):
        connect("hub", application_name="test")


def test_triggerer_and_page_log_in_with_a_client_certificate(
    world: World, tls_server: TlsServer, caplog: pytest.LogCaptureFixture
) -> None:
    """While it is expired, the triggerer tries again and the page names the certificate; a new one in the same files is all they need."""
    caplog.set_level(logging.INFO)
    world.send("a")
    tls_server.authority.issue(LOGIN, ends_in=EXPIRED)
    with pytest.raises(
        errors.StoreUnusable, match="store airline: the server refused the client's certificate: certificate expired"
    ):
        _ask_as_the_page("airline")

    async def watch() -> bool:
        async with aclosing(poll_store("relaybox_airline", WORK_OF_HOPS, watch=Watch())) as polls:
            first = asyncio.ensure_future(anext(polls))
            deadline = Deadline(30)
            while "store_watch_interrupted connection=relaybox_airline" not in caplog.text:
                assert not deadline.is_over()
                await asyncio.sleep(0.02)
            assert not first.done()
            tls_server.authority.issue(LOGIN)
            seen = await asyncio.wait_for(first, patience(60))
            return any(poll.has_work for poll in seen.values())

    assert asyncio.run(watch())
    assert _ask_as_the_page("airline") == (LOGIN,)


def _ask_as_the_page(store: str) -> object:
    """With the parameters of Airflow's connection, and no service file."""

    def question() -> object:
        with closing(connect(store, application_name="test")) as session, session.cursor() as cursor:
            cursor.execute("select session_user::text")
            return cursor.fetchone()

    return Inquiry(read_store_parameters(ALL), patience(10)).answer(question)


def test_rows_of_encrypted_sessions_are_piped_by_libpq(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """It alone has the keys. The event of the slice says it, and the messages are the same."""
    world.send("a", "b")
    with caplog.at_level(logging.INFO):
        transfer(world)
    assert [line for line in caplog.messages if line.startswith("slice_copied")] != []
    assert all("piped_by=rows" in line for line in caplog.messages if line.startswith("slice_copied"))
    assert world.payloads("flights/1") == ["a", "b"]
