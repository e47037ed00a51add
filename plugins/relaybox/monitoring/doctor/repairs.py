"""Whether functions, views, tables and rights are still what `relaybox init` made: a dump without rights and a change by hand are seen."""

from __future__ import annotations

from collections.abc import Iterator

from relaybox import __version__
from relaybox.monitoring.doctor.check import Diagnosis, Examined, error, hidden, notice, ok, warning
from relaybox.monitoring.doctor.record import may_read
from relaybox.monitoring.doctor.schemas import RUN_INIT, is_current
from relaybox.stores.schema.functions import list_files, read_files
from relaybox.stores.schema.functions_version import read_functions_version
from relaybox.stores.schema.object_defects import StoreDefects, find_defects, shorten
from relaybox.stores.schema.sql_files import sql_directory
from relaybox.stores.schema.table_definitions import find_table_defects


def check_objects(examined: Examined) -> Iterator[Diagnosis]:
    """Every function and view is there, as init made it."""
    if (defects := _find(examined)) is None:
        return
    if defects.objects:
        yield error(f"Changed since init: {shorten(defects.objects)}.", RUN_INIT)
    if defects.unrecorded:
        yield notice(
            f"Another version of Postgres, or of Relaybox, made these views; whether they were changed can't be told: "
            f"{shorten(defects.unrecorded)}.",
            f"{RUN_INIT}. It makes them again.",
        )
    if not (defects.objects or defects.unrecorded):
        yield ok("Every function and view is as init made it.")


def check_functions_version(examined: Examined) -> Iterator[Diagnosis]:
    """The functions and views were made from the files of this version of Relaybox."""
    if not is_current(examined):
        return
    for table in ("store", "installed_object"):
        if not may_read(examined.session, table):
            yield hidden(examined, f"relaybox_internal.{table}")
            return
    found = read_functions_version(examined.session, list_files(read_files(sql_directory())))
    made_by = f"Relaybox {found.version}" if found.version else "A Relaybox that records no version"
    if not found.differing:
        yield ok(f"Its functions and views are those of Relaybox {__version__}.")
        return
    differ = f"{len(found.differing):,} of them differ from those of this Relaybox, {__version__}: {shorten(found.differing)}."
    if found.is_newer:
        yield error(
            f"{made_by}, which is newer, made its functions and views; {differ}",
            f"Install Relaybox {found.version} here. To go back to {__version__} in the store: relaybox init --older",
        )
    else:
        yield error(f"{made_by}{', which is older,' if found.is_older else ''} made its functions and views; {differ}", RUN_INIT)


def check_tables(examined: Examined) -> Iterator[Diagnosis]:
    """The tables are those that init makes: columns, defaults, constraints, indexes, sequences, policies."""
    if not is_current(examined):
        return
    defects = find_table_defects(examined.session)
    if defects is None:
        yield error("The functions that compare the tables are not as init made them.", RUN_INIT)
        return
    by_init = [one.defect for one in defects if one.is_mendable]
    if by_init:
        yield error(f"The tables are not as init makes them: {shorten(by_init)}.", RUN_INIT)
    for one in defects:
        if one.is_mendable:
            continue
        if one.state == "added":
            yield warning(
                f"{_sentence(one.defect)}.", f"If nothing of yours needs it, as the owner of the schema: {one.statement}."
            )
        else:
            yield error(f"{_sentence(one.defect)}.", f"As the owner of the schema: {one.statement}.")
    if not defects:
        yield ok("The tables are as init makes them.")


def _sentence(clause: str) -> str:
    """A clause that begins a sentence; the name of an object stays as it is."""
    return clause if clause.startswith("relaybox") else f"{clause[:1].upper()}{clause[1:]}"


def check_rights(examined: Examined) -> Iterator[Diagnosis]:
    """The roles of Relaybox have their rights, PUBLIC has none, and one role owns every object."""
    if (defects := _find(examined)) is None:
        return
    if defects.rights is None:
        yield error("The functions that know the rights are not as init made them.", RUN_INIT)
        return
    by_init = [one.defect for one in defects.rights if one.is_mendable or one.kind in ("missing", "public")]
    by_others = [one for one in defects.rights if one.defect not in by_init and one.kind != "everywhere"]
    if by_init:
        yield error(f"Rights that are not as init gave them: {shorten(by_init)}.", RUN_INIT)
    for one in by_others:
        who = "the owner of the database" if one.kind == "database" else "a superuser"
        yield error(f"{one.defect}.", f"As {who}: {one.statement};")
    for one in defects.rights:
        if one.kind == "everywhere":
            yield warning(
                f"{one.defect}. Relaybox takes it from the tables that it makes; tables of others in its schemas keep it.",
                f"If none of your tables needs it, as their owner: {one.statement};",
            )
    if not defects.rights:
        yield ok("The roles of Relaybox have their rights; PUBLIC has none.")


def _find(examined: Examined) -> StoreDefects | None:
    """None where another check tells that there is nothing to compare with, or that the login may not read it."""
    return find_defects(examined.session) if is_current(examined) else None
