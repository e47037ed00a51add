"""Logins that cost nothing: most of a short session's time is the check of its password."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from contextlib import closing

import psycopg2
from psycopg2 import sql

from relaybox.local.clusters import Cluster


def make_logins_cheap(cluster: Cluster) -> None:
    """The same password, hashed once instead of 4096 times; for a running cluster of any version."""
    with closing(psycopg2.connect(**cluster.parameters())) as connection, connection.cursor() as cursor:
        verifier = sql.Literal(_verifier(cluster.password))
        cursor.execute(sql.SQL("alter role {} password {}").format(sql.Identifier(cluster.user), verifier))
        connection.commit()


def _verifier(password: str) -> str:
    """What Postgres keeps of a password (RFC 5803), with one iteration: its own setting `scram_iterations` came with Postgres 16."""
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1)
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    encoded = (base64.b64encode(part).decode() for part in (salt, stored_key, server_key))
    return "SCRAM-SHA-256$1:{}${}:{}".format(*encoded)
