"""What an SQLSTATE of a store means: the error of ours. Needs no library of Postgres, so that each client can use it."""

from __future__ import annotations

from relaybox import errors

OWN_CODES: dict[str, type[errors.RelayboxError]] = {
    "RB001": errors.StoreUnusable,
    "RB002": errors.PlanRefused,
    "RB003": errors.StoreUnusable,
    "RB004": errors.UnknownHop,
    "RB005": errors.PlanRefused,
    "RB006": errors.HopChanged,
    "RB007": errors.InitUnfinished,
    "RB008": errors.ObjectsInTheWay,
    "RB009": errors.OutboxChanged,
    "RB011": errors.HistoryLost,
    "RB012": errors.ContentDiffers,
    "RB013": errors.SliceMissing,
    "RB014": errors.HistoryLost,
    "RB015": errors.SliceSuperseded,
    "RB016": errors.HistoryLost,
    "RB017": errors.NoSuchGap,
    "RB018": errors.HistoryLost,
    "RB021": errors.SenderRefused,
    "RB022": errors.SenderRefused,
    "RB023": errors.SenderRefused,
    "RB024": errors.PutChanged,
    "RB025": errors.DerivationChanged,
    "RB030": errors.AlreadySubscribed,
    "RB031": errors.NotSubscribed,
    "RB032": errors.UnknownStream,
    "RB033": errors.NotFetched,
    "RB034": errors.NoLongerKept,
    "RB035": errors.LaneLost,
    "RB036": errors.RequestRefused,
    "RB037": errors.DeadLetterNotOpen,
    "RB038": errors.Detached,
    "RB039": errors.QuotaExceeded,
    "RB040": errors.RoleNotBound,
    "RB041": errors.TopicNotGranted,
    "RB042": errors.ApprovalRequired,
    "RB043": errors.ApprovalOutdated,
    "RB044": errors.AdoptionRefused,
    "RB045": errors.RowUnmapped,
}

NO_RIGHT = "42501"  # insufficient_privilege
_POSTGRES_CODES: dict[str, type[errors.RelayboxError]] = {
    "3F000": errors.StoreNotInitialised,  # invalid_schema_name: the store has no schema relaybox
    NO_RIGHT: errors.StoreUnusable,
    "25006": errors.StoreUnusable,  # read_only_sql_transaction
    "25P03": errors.StoreUnreachable,  # idle_in_transaction_session_timeout
    "25P04": errors.StoreUnreachable,  # transaction_timeout
    "55006": errors.StoreBusy,  # object_in_use
    "55P03": errors.StoreBusy,  # lock_not_available
    "57014": errors.StoreBusy,  # query_canceled
    "57P04": errors.StoreUnusable,  # database_dropped
    "58P01": errors.StoreFailed,  # undefined_file: a file of the server is gone
    "58P02": errors.StoreFailed,  # duplicate_file
    "58P03": errors.StoreFailed,  # file_name_too_long
}

_NEXT_STEPS: dict[type[errors.RelayboxError], str] = {errors.StoreNotInitialised: "Run: relaybox init"}
"""Where the server gives no hint."""

_POSTGRES_CLASSES: dict[str, type[errors.RelayboxError]] = {
    "08": errors.StoreUnreachable,  # connection_exception
    "28": errors.StoreUnusable,  # invalid_authorization
    "40": errors.StoreBusy,  # serialization_failure, deadlock_detected
    "53": errors.StoreBusy,  # insufficient_resources, disk_full
    "57": errors.StoreUnreachable,  # admin_shutdown, crash_shutdown, cannot_connect_now
    "58": errors.StoreBusy,  # io_error
    "72": errors.StoreBusy,  # snapshot_too_old
}


def error_class(sqlstate: str) -> type[errors.RelayboxError]:
    """Returns the class of ours for a SQLSTATE."""
    return OWN_CODES.get(sqlstate) or _POSTGRES_CODES.get(sqlstate) or _POSTGRES_CLASSES.get(sqlstate[:2], errors.StoreFailed)


def store_error(
    *, store: str, doing: str, sqlstate: str | None, said: str, hint: str | None, login: str, is_broken: bool
) -> errors.RelayboxError:
    """The error of ours for an error of a store; terminal unless the SQLSTATE says that a retry may help.

    Args:
        store: its name.
        doing: what was done, as in "fetching".
        sqlstate: None if the server did not answer.
        said: what the server or the library said.
        hint: the server's.
        login: whom to grant a right that lacks.
        is_broken: without an SQLSTATE: the connection itself broke.
    """
    if sqlstate is None:
        kind: type[errors.RelayboxError] = errors.StoreUnreachable if is_broken else errors.StoreFailed
    else:
        kind = error_class(sqlstate)
    return kind(
        f"store {store}: while {doing}: {said.rstrip('.?')}{f' ({sqlstate})' if sqlstate else ''}.",
        next_step=hint or (grant_role_to(login) if sqlstate == NO_RIGHT else _NEXT_STEPS.get(kind, "")),
    )


def grant_role_to(login: str) -> str:
    """The next step where `login` lacks a right."""
    return (
        f"See in docs/rights.md which role may do this, and grant it to {login}: an application that sends needs relaybox_producer, "
        "one that consumes relaybox_consumer; tasks and commands that move messages need relaybox_driver, those that only look "
        "relaybox_viewer, init the owner. If it has the role, grant the role what was revoked."
    )
