"""Event triggers: functions of others that run in the statements by which segments are made and dropped, and in every login."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from relaybox.monitoring.doctor.check import Diagnosis, Examined, notice, ok, warning

SEGMENT_COMMANDS = ("CREATE TABLE", "ALTER TABLE", "DROP TABLE")
"""What hops and retention run."""


class _EventTrigger(NamedTuple):
    """`commands`: the tags that it is for; none: every command. `extension`: what it is a part of."""

    name: str
    event: str
    commands: list[str] | None
    function: str
    extension: str | None


_TRIGGERS = """
select quote_ident(t.evtname) as name, t.evtevent::text as event, t.evttags as commands, t.evtfoid::regproc::text as function,
    (
        select e.extname::text from pg_depend d join pg_extension e on e.oid = d.refobjid
        where d.classid = 'pg_event_trigger'::regclass and d.objid = t.oid and d.deptype = 'e'
    ) as extension
from pg_event_trigger t where t.evtenabled in ('O', 'A') order by t.evtname
"""


def check_event_triggers(examined: Examined) -> Iterator[Diagnosis]:
    """No function of others can refuse or change what makes a segment, drops one, or logs in."""
    found = examined.session.rows(_EventTrigger, _TRIGGERS)
    for one in found:
        disable = f"As a superuser: alter event trigger {one.name} disable;"
        what = f"Event trigger {one.name} ({one.function}, {one.event})"
        if one.event == "login":
            yield warning(f"{what} runs in each login: an error in it ends every session of hops and applications.", disable)
        elif one.event == "table_rewrite" or (one.commands and not set(one.commands) & set(SEGMENT_COMMANDS)):
            yield notice(f"{what} runs in no command that makes or drops segments; it can refuse an init.", disable)
        elif one.extension is not None:
            yield notice(f"{what} of extension {one.extension} runs whenever a segment is made or dropped.", disable)
        else:
            yield warning(
                f"{what} runs whenever a hop makes a segment and retention drops one. If it raises an error, hops or retention stop; it "
                "can also change the new segment.",
                f"{disable} Or have {one.function} return at once for objects of schema relaybox_internal.",
            )
    if not found:
        yield ok("No event trigger is on.")
