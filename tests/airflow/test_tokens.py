"""A connection with the extra `iam` logs in with tokens that Airflow's Postgres hook gets, one for each session that asks."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from typing import Any

import pytest

from relaybox.airflow.credentials import read_credentials
from relaybox.airflow.page.store_parameters import read_store_parameters
from relaybox.airflow.store_watch import WORK_OF_HOPS, poll_store
from relaybox.errors import ConfigurationError, CredentialsUnavailable
from relaybox.routes import Store, Watch
from tests.airflow.token_services import stand_in_for_aws, stand_in_for_azure
from tests.support.patience import Deadline

AWS = {"iam": True, "aws_conn_id": "my_aws", "sslmode": "verify-full"}
AZURE = {"iam": True, "azure_conn_id": "my_azure", "sslmode": "verify-full"}
HUB = Store(name="hub", service="hub", connection="relaybox_hub")


def define(monkeypatch: pytest.MonkeyPatch, extra: object, **fields: object) -> None:
    connection = {"conn_type": "postgres", "host": "db.example", "login": "mover", "schema": "hub", "extra": extra, **fields}
    monkeypatch.setenv("AIRFLOW_CONN_RELAYBOX_HUB", json.dumps(connection))


def test_aws_gives_a_token_per_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the login, the host and the port of the connection; its password, if there is one, goes nowhere."""
    numbers = itertools.count(1)
    stand_in_for_aws(monkeypatch, lambda *of: f"{of} {next(numbers)}")
    define(monkeypatch, AWS, password="not this one")
    for number in (1, 2):
        assert read_credentials("relaybox_hub") == {
            "host": "db.example",
            "port": "5432",
            "dbname": "hub",
            "user": "mover",
            "password": f"('my_aws', 'db.example', 5432, 'mover') {number}",
            "sslmode": "verify-full",
        }


def test_azure_gives_a_token_per_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A managed identity is a connection of the Azure provider."""
    stand_in_for_azure(monkeypatch, lambda *of: f"token {of}")
    define(monkeypatch, AZURE)
    monkeypatch.setenv("AIRFLOW_CONN_MY_AZURE", json.dumps({"conn_type": "azure", "extra": {"managed_identity_client_id": "x"}}))
    scope = "https://ossrdbms-aad.database.windows.net/.default"
    assert read_credentials("relaybox_hub")["password"] == f"token ('my_azure', '{scope}')"


def test_a_token_is_masked_in_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk._shared.secrets_masker import redact

    stand_in_for_aws(monkeypatch, lambda *_: "a-token-of-fifteen-minutes")
    define(monkeypatch, AWS)
    read_credentials("relaybox_hub")
    assert redact("it says a-token-of-fifteen-minutes") == "it says ***"


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"iam": True}, "must not travel unencrypted; set the extra sslmode to verify-full"),
        ({"iam": True, "sslmode": "prefer"}, "must not travel unencrypted; set the extra sslmode to verify-full"),
        ({"iam": "false"}, "its extra iam must be true or false, without quotes"),
        ({"azure_conn_id": "my_azure"}, 'its extra azure_conn_id does nothing without the extra "iam": true'),
        ({"iam": False, "aws_conn_id": "my_aws"}, 'its extra aws_conn_id does nothing without the extra "iam": true'),
        ({"azur_conn_id": "x"}, "its extra azur_conn_id is not passed on to libpq; Did you mean azure_conn_id?"),
    ],
)
def test_a_connection_that_asks_wrongly_is_refused(monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any], said: str) -> None:
    """A token is sent as it is: without TLS everybody on the way would have it. The hook itself takes the text "false" for true."""
    stand_in_for_aws(monkeypatch, lambda *_: "a token")
    define(monkeypatch, extra)
    with pytest.raises(ConfigurationError) as refused:
        read_credentials("relaybox_hub")
    assert said in str(refused.value)


def test_a_provider_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of this repository has no Amazon provider."""
    define(monkeypatch, AWS)
    with pytest.raises(ConfigurationError, match="apache-airflow-providers-amazon not installed, run: pip install"):
        read_credentials("relaybox_hub")


def test_a_token_service_that_fails_is_worth_a_retry(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Tasks are retried, the triggerer tries again, and the page shows the other stores."""

    def fail(*_: object) -> str:
        raise ConnectionError("no route to the token service")

    stand_in_for_aws(monkeypatch, fail)
    define(monkeypatch, AWS)
    with pytest.raises(CredentialsUnavailable, match="ConnectionError: no route to the token service") as failed:
        read_credentials("relaybox_hub")
    assert failed.value.next_step
    assert read_store_parameters([HUB]) == {}
    assert "credentials_not_renewed service=hub" in caplog.text
    caplog.set_level(logging.INFO)

    async def watch() -> None:
        deadline = Deadline(30)
        watching = asyncio.ensure_future(anext(poll_store("relaybox_hub", WORK_OF_HOPS, watch=Watch())))
        while "store_watch_interrupted connection=relaybox_hub" not in caplog.text:
            assert not deadline.is_over()
            await asyncio.sleep(0.02)
        assert not watching.done()
        watching.cancel()

    asyncio.run(watch())
