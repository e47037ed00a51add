"""What Airflow reads of an installed package by the entry point apache_airflow_provider: a type of connection, and its form."""

from __future__ import annotations

from typing import Any

from relaybox import __version__

CONNECTION_TYPE = "relaybox"


def get_provider_info() -> dict[str, Any]:
    """Imports nothing of Airflow: each of its components reads this when it starts."""
    return {
        "package-name": "relaybox",
        "name": "Relaybox",
        "description": "Moves messages from Postgres to Postgres, hop by hop, exactly once.",
        "versions": [__version__],
        "integrations": [{"integration-name": "Relaybox", "external-doc-url": "", "tags": ["service"]}],
        "operators": [
            {
                "integration-name": "Relaybox",
                "python-modules": ["relaybox.airflow.operators.put", "relaybox.airflow.operators.consume"],
            }
        ],
        "triggers": [
            {
                "integration-name": "Relaybox",
                "python-modules": ["relaybox.airflow.triggers", "relaybox.airflow.subscription_trigger"],
            }
        ],
        "queues": ["relaybox.airflow.messaging.RelayboxMessageQueueProvider"],
        "task-decorators": [
            {"name": "relaybox_consume", "class-name": "relaybox.airflow.decorators.consume_task"},
        ],
        "hooks": [{"integration-name": "Relaybox", "python-modules": ["relaybox.airflow.hook"]}],
        "connection-types": [
            {
                "connection-type": CONNECTION_TYPE,
                "hook-class-name": "relaybox.airflow.hook.StoreHook",
                "hook-name": "Relaybox store",
                "ui-field-behaviour": {
                    "relabeling": {"schema": "Database"},
                    "placeholders": {"host": "db1.example.org", "schema": "hub", "login": "relaybox_tasks", "port": "5432"},
                },
                "conn-fields": _FIELDS,
            }
        ],
    }


def _text(label: str, description: str) -> dict[str, Any]:
    return {"label": label, "schema": {"type": ["string", "null"]}, "description": description}


_FIELDS = {
    "sslmode": {
        "label": "TLS (sslmode)",
        "schema": {
            "type": ["string", "null"],
            "enum": ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"],
            "default": "verify-full",
        },
        "description": "verify-full checks the certificate of the server and its name. Tokens need at least require.",
    },
    "sslrootcert": _text("Certificates of authorities (sslrootcert)", "A file on every worker, or: system"),
    "sslcert": _text("Client certificate (sslcert)", "A file on every worker."),
    "sslkey": _text("Key of the client certificate (sslkey)", "A file on every worker that only its user can read."),
    "target_session_attrs": _text(
        "Server of several hosts (target_session_attrs)", "read-write: the primary of a list of hosts."
    ),
    "iam": {
        "label": "The password is a token (iam)",
        "schema": {"type": ["boolean", "null"], "default": False},
        "description": "Airflow's Postgres provider gets one for each session, from AWS or Azure.",
    },
    "aws_conn_id": _text("AWS connection (aws_conn_id)", "Whose identity gets the token."),
    "azure_conn_id": _text("Azure connection (azure_conn_id)", "Whose identity gets the token."),
}
