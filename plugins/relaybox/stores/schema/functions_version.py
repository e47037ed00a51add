"""Which version of Relaybox made the functions of a store: an older one replaces them only with --older.

An init, or a script of `init --sql`, of an older version with the same schema number would put older functions into a store without a
word. The order is that of the version of the package. Two commits of one version have no order: the last init wins, and doctor of the
other commit says that the files differ (docs/decisions/0033-older-functions.md).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from relaybox import __version__, errors

if TYPE_CHECKING:
    from relaybox.stores.schema.statements import Statements
    from relaybox.stores.sessions.store_session import StoreSession

_STAGES = {".dev": 0, "a": 1, "b": 2, "rc": 3, "": 4, ".post": 5}


def version_order(version: str) -> list[int]:
    """Numbers that sort as versions do: major, minor, patch, stage, number of the stage. A local part (+...) does not count.

    Raises ValueError for what is no such version.
    """
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)(?:(\.dev|a|b|rc|\.post)(\d+))?(?:\+.*)?", version)
    if found is None:
        raise ValueError(f"{version} is no version as 0.1.0, 0.2.0rc1 or 0.2.0.dev3")
    return [int(found[1]), int(found[2]), int(found[3]), _STAGES[found[4] or ""], int(found[5] or 0)]


def refuse_older_functions(session: Statements) -> None:
    """Refuses to replace functions of a newer version; where the texts are the same, nothing is refused.

    Reads the transaction's setting relaybox_init.files (stores.schema.functions). In a database that has a store.

    Raises:
        SchemaTooNew: a newer version made the functions, and their files differ from those of this one.
    """
    session.refuse(_NEWER, {"version": __version__, "order": version_order(__version__)}, kind=errors.SchemaTooNew)


# A store of before migration 54 has no record. A file whose object was dropped or changed by hand counts by its record.
_NEWER = """
select 'Relaybox ' || (r.row ->> 'functions_version') || ' made its functions, and those of this Relaybox, ' || %(version)s
        || ', are older.' as told,
    'Use Relaybox ' || (r.row ->> 'functions_version') || ' or newer. To replace its functions by the older ones: relaybox init --older'
        as next_step
from (select to_jsonb(s) as row from relaybox_internal.store s) r
where array(select n::integer from jsonb_array_elements_text(nullif(r.row -> 'functions_order', 'null')) n) > %(order)s::integer[]
    and exists (
        select from json_array_elements(current_setting('relaybox_init.files')::json) f
        full join relaybox_internal.installed_object o on (o.kind, o.name) = (f ->> 0, f ->> 1)
        where o.digest is distinct from f ->> 2
    )
"""


def record_version(session: Statements, *, older: bool) -> None:
    """Records that this version made the functions, after it did; without `older` a newer version stays on record."""
    order = version_order(__version__)
    session.execute(
        """
        update relaybox_internal.store set functions_version = %(version)s, functions_order = %(order)s::integer[]
        where functions_order is distinct from %(order)s::integer[]
            and (%(older)s or coalesce(functions_order, '{}') < %(order)s::integer[])
        """,
        {"version": __version__, "order": order, "older": older},
    )


class FunctionsVersion(NamedTuple):
    """Which version made the functions of a store, and how many of its files differ from those of this code.

    Attributes:
        version: None: no init has recorded it.
        is_newer, is_older: than this code.
        differing: names of functions and views; an object that this code does not have, or that the store lacks, too.
    """

    version: str | None
    is_newer: bool
    is_older: bool
    differing: list[str]


def read_functions_version(session: StoreSession, files: str) -> FunctionsVersion:
    """Compares the record of a store of this schema version with this code. In the session's transaction.

    Args:
        session: of a login that may read relaybox_internal.store and installed_object.
        files: as stores.schema.functions.list_files().
    """
    return session.row(
        FunctionsVersion,
        """
        select s.functions_version as version, coalesce(s.functions_order > %(order)s::integer[], false) as is_newer,
            coalesce(s.functions_order < %(order)s::integer[], false) as is_older,
            array(
                select coalesce(o.name, f ->> 1) from json_array_elements(%(files)s::json) f
                full join relaybox_internal.installed_object o on (o.kind, o.name) = (f ->> 0, f ->> 1)
                where o.digest is distinct from f ->> 2
                order by 1
            ) as differing
        from relaybox_internal.store s
        """,
        {"order": version_order(__version__), "files": files},
    )
