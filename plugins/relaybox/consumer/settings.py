"""The settings of a consumer's sessions, where Relaybox opens them."""

from __future__ import annotations

from relaybox.stores.sessions.settings import duration

STATEMENT_TIMEOUT_SECONDS = 300
LOCK_TIMEOUT_SECONDS = 30
IDLE_IN_TRANSACTION_SECONDS = 300

SETTINGS = {
    "statement_timeout": duration(STATEMENT_TIMEOUT_SECONDS),
    "lock_timeout": duration(LOCK_TIMEOUT_SECONDS),
    "idle_in_transaction_session_timeout": duration(IDLE_IN_TRANSACTION_SECONDS),
    "idle_session_timeout": "0",  # a worker rests between fetches
    "default_transaction_read_only": "off",  # it acknowledges
    "restrict_nonsystem_relation_kind": "",
    "datestyle": "ISO",
}

SETTINGS_OF_A_TRANSACTION = f"""
set local transaction_read_only = off;
set local statement_timeout = '{SETTINGS["statement_timeout"]}';
set local lock_timeout = '{SETTINGS["lock_timeout"]}';
set local idle_in_transaction_session_timeout = '{SETTINGS["idle_in_transaction_session_timeout"]}';
set local datestyle = 'ISO';
"""
"""Behind a pooler, in one round trip with the first statement: the next transaction may have another session of the server."""
