"""Whether functions, views and rights are still what `relaybox init` made: a dump without rights and a change by hand are seen."""

from __future__ import annotations

from collections.abc import Iterator

from relaybox.monitoring.doctor.check import Diagnosis, Examined, error, notice, ok
from relaybox.monitoring.doctor.schemas import RUN_INIT, is_current
from relaybox.stores.repairs import StoreDefects, find_defects, shorten


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


def check_rights(examined: Examined) -> Iterator[Diagnosis]:
    """The roles of Relaybox have their rights, PUBLIC has none, and one role owns every object."""
    if (defects := _find(examined)) is None:
        return
    if defects.rights is None:
        yield error("The functions that know the rights are not as init made them.", RUN_INIT)
        return
    by_init = [one.defect for one in defects.rights if one.is_mendable or one.kind in ("missing", "public")]
    by_others = [one for one in defects.rights if one.defect not in by_init]
    if by_init:
        yield error(f"Rights that are not as init gave them: {shorten(by_init)}.", RUN_INIT)
    for one in by_others:
        who = "the owner of the database" if one.kind == "database" else "a superuser"
        yield error(f"{one.defect}.", f"As {who}: {one.statement};")
    if not defects.rights:
        yield ok("The roles of Relaybox have their rights; PUBLIC has none.")


def _find(examined: Examined) -> StoreDefects | None:
    """None where another check tells that there is nothing to compare with, or that the login may not read it."""
    return find_defects(examined.session) if is_current(examined) else None
