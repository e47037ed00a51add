"""Skip missing messages of a sender, at each store that waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from relaybox import errors
from relaybox.log_events import emit
from relaybox.stores.opening import opened_store
from relaybox.streams.holdback import Gap, delivery_stores
from relaybox.streams.skip_plans import LAST_INDEX, SenderGap, plan_skip

if TYPE_CHECKING:
    from relaybox.routes import Route, Store
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class SkipResult:
    """The result of a skip at one store.

    Attributes:
        gap: None if the store has no such gap; `why_not` says why.
        error: the store failed. This result is the last one; the results before it are committed.
    """

    store: str
    epoch: int | None = None
    gap: Gap | None = None
    released: int = 0
    why_not: str = ""
    error: errors.RelayboxError | None = None


class _SkippedGap(NamedTuple):
    epoch: int
    first_index: int
    last_index: int
    released: int


def skip_gap(
    route: Route,
    sender: str,
    *,
    reason: str,
    recorded_by: str,
    through: int | None = None,
    held: bool = False,
    only: Store | None = None,
    epoch: int | None = None,
) -> list[SkipResult]:
    """Skips the first gap of a sender at every store of a route that has it. Commits per store; idempotent.

    A store that lags behind an earlier store of the route skips only what the earlier one misses or
    skipped: all else is on its way. It skips this even before a message waits for it.

    Args:
        route: brings the sender's messages.
        sender: the sender with the gap, in its newest epoch.
        reason: is recorded.
        recorded_by: is recorded.
        through: the last index to skip; by default the one before the first held message.
        held: set aside the message with index `through`, which is the sender's next one and waits for
            messages that its clock names.
        only: skip at this store only.
        epoch: the sender's, whose gap was approved; None: the newest one.

    Returns:
        The results of the stores, in the order of the route. If a store fails after another one has a
        result, the last result has the error: so the committed skips are known.

    Raises:
        ConfigurationError: no reason, an index that no message can have, or a store that is not the route's.
        ApprovalOutdated: a store is at another epoch of the sender than `epoch`, and would skip there.
        NoSuchGap: `through` includes messages that are not missing, or no store knows the sender.
        UnknownHop: the stream is not registered.
        StoreUnreachable, StoreBusy: nothing was skipped.
    """
    request = _SkipRequest(route, sender, through, held, reason, recorded_by, epoch)
    _check(request, only)
    done: list[SkipResult] = []
    states: list[tuple[str, SenderGap | None]] = []
    for store in delivery_stores(route):
        try:
            with opened_store(store, application_name="relaybox skip") as session:
                if only in (None, store):
                    done.append(_skip_at(session, request, states))
                states.append((store.name, _read_gap(session, request)))
        except errors.RelayboxError as error:
            if not done:
                raise
            return [*done, SkipResult(store.name, error=error)]  # later stores need the gaps of this one
        if store == only:
            break
    if all(state is None for _, state in states):
        raise errors.NoSuchGap(
            f"route {route.name}: no message with an index has arrived from sender {sender}.",
            next_step=f"See: relaybox holdback {route.name}",
        )
    return done


@dataclass(frozen=True)
class _SkipRequest:
    """The arguments of `skip_gap`."""

    route: Route
    sender: str
    through: int | None
    held: bool
    reason: str
    recorded_by: str
    epoch: int | None


def _check(request: _SkipRequest, only: Store | None) -> None:
    """Raises ConfigurationError for a request that no store can execute."""
    if not request.reason.strip():
        raise errors.ConfigurationError("skip needs a reason.", next_step='Add: --reason "..."')
    if request.through is not None and request.through > LAST_INDEX:
        raise errors.ConfigurationError(
            f"index {request.through} is too large: the last possible index is {LAST_INDEX}.",
            next_step=f"See: relaybox holdback {request.route.name}",
        )
    if request.held and request.through is None:
        raise errors.ConfigurationError(
            f"--held needs the index of the held message of sender {request.sender}.",
            next_step=f"Add its index: --through N --held. See: relaybox holdback {request.route.name}",
        )
    if only is not None and only not in delivery_stores(request.route):
        names = ", ".join(store.name for store in delivery_stores(request.route))
        raise errors.ConfigurationError(
            f"store {only.name} does not deliver route {request.route.name}. Stores that do: {names}."
        )


def _read_gap(session: StoreSession, request: _SkipRequest) -> SenderGap | None:
    session = session.doing(f"reading how far sender {request.sender} is")
    return session.row_if_any(
        SenderGap, "select * from relaybox_internal.sender_gap(%s, %s)", request.route.stream, request.sender
    )


def _skip_at(session: StoreSession, request: _SkipRequest, earlier: Sequence[tuple[str, SenderGap | None]]) -> SkipResult:
    state = _read_gap(session, request)
    session.rollback()
    planned = plan_skip(state, earlier, sender=request.sender, origin=request.route.path[0].name, through=request.through)
    if isinstance(planned, str):
        return SkipResult(session.store, why_not=planned)
    try:
        return _skip_through(session, request, planned)
    except errors.NoSuchGap as error:
        session.rollback()
        if state is None:  # not even its declaration has arrived
            return SkipResult(session.store, why_not=str(error))
        raise


def _skip_through(session: StoreSession, request: _SkipRequest, last_index: int) -> SkipResult:
    session = session.doing(f"skipping a gap of sender {request.sender}")
    gap = session.row(
        _SkippedGap,
        "select * from relaybox_internal.skip_gap(%s, %s, %s, %s, %s, %s, %s)",
        *(request.route.stream, request.sender, last_index, request.reason, request.recorded_by, request.held, request.epoch),
    )
    session.commit_durably("skip")
    emit(
        "gap_skipped",
        route=request.route.name,
        store=session.store,
        sender=request.sender,
        epoch=gap.epoch,
        first_index=gap.first_index,
        last_index=gap.last_index,
        released=gap.released,
    )
    return SkipResult(session.store, gap.epoch, Gap(gap.first_index, gap.last_index), gap.released)
