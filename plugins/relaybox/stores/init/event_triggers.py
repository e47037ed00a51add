"""Event triggers of others, whose functions run in the statements of an init and may end them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import psycopg2

from relaybox import errors

if TYPE_CHECKING:
    from relaybox.stores.sessions.store_session import StoreSession


class _EventTrigger(NamedTuple):
    """Names are as SQL writes them; `function` with its parentheses. `enable`: what enables it as it is now."""

    name: str
    function: str
    enable: str


EVENT_TRIGGERS = """
select pg_catalog.quote_ident(t.evtname) as name, t.evtfoid::pg_catalog.regprocedure::text as function,
    case t.evtenabled when 'A' then 'enable always' else 'enable' end as enable
from pg_catalog.pg_event_trigger t where t.evtenabled in ('O', 'A') order by t.evtname
"""


@contextmanager
def naming_event_triggers(session: StoreSession) -> Iterator[None]:
    """An error of the block that a function of an event trigger raised, or something that it called, names both. Rolls back then.

    The server's context of the error has the function's name, in every language of messages.

    Raises:
        an error of the same kind.
    """
    try:
        yield
    except errors.RelayboxError as error:
        cause = error.__cause__
        if not isinstance(cause, psycopg2.Error) or not cause.diag.context or session.closed:
            raise
        try:
            session.rollback()
            triggers = session.rows(_EventTrigger, EVENT_TRIGGERS)
        except errors.RelayboxError:
            raise error from cause  # the store does not answer any more: what failed first is told
        for trigger in triggers:
            if trigger.function in cause.diag.context:
                raise _named(session, trigger, error, cause) from cause
        raise


def _named(
    session: StoreSession, trigger: _EventTrigger, error: errors.RelayboxError, cause: psycopg2.Error
) -> errors.RelayboxError:
    said = (cause.diag.message_primary or "").rstrip(".?")
    return type(error)(
        f"store {session.store}: event trigger {trigger.name} ended init: its function {trigger.function} raised: "
        f"{said} ({cause.pgcode}).",
        next_step=f"Have the function return for schemas relaybox and relaybox_internal. Or as a superuser: alter event trigger "
        f"{trigger.name} disable; then run: relaybox init; then: alter event trigger {trigger.name} {trigger.enable};",
    )
