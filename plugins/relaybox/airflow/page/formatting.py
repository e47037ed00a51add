"""Numbers and times as the page writes them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from relaybox.amounts import amount
from relaybox.verification.reliability import is_no_reading, show_ratio

if TYPE_CHECKING:
    from relaybox.monitoring.status import HopStatus, RouteStatus
    from relaybox.verification.reliability import Delivery


def count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}"


def messages(number: int) -> str:
    return amount(number, "message")


def duration(seconds: float | None) -> str:
    """In its largest sensible unit: 0.2 s, 35 s, 12 min, 5 h, 3 d."""
    if seconds is None:
        return "?"
    if seconds == 0:
        return "0 s"
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def rate(per_second: float | None) -> str:
    """Messages per second."""
    if per_second is None:
        return "?"
    return f"{per_second:,.0f}/s" if per_second >= 10 or per_second == 0 else f"{per_second:.2g}/s"


def clock(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def ratios(measured: HopStatus | RouteStatus) -> str:
    """`R 1 UR 1`; a dash where nothing has arrived yet, a question mark where a store is silent."""
    delivery = measured.delivery
    if delivery is None:
        return "R ? UR ?"
    if is_no_reading(delivery, measured.received):
        return "R - UR -"
    return f"R {show_ratio(delivery.reliability)} UR {show_ratio(delivery.uniqueness)}"


def mode(delivery: Delivery | None, received: int | None) -> str:
    """The delivery mode that follows from R and UR."""
    if delivery is None:
        return "?"
    return "nothing yet" if is_no_reading(delivery, received) else str(delivery.mode)


def lag(hop: HopStatus) -> str:
    if hop.lag_messages is None:
        return "lag ?"
    if hop.lag_messages == 0:
        return "no lag"
    return f"lag {hop.lag_messages:,}" + (f", {duration(hop.lag_seconds)}" if hop.lag_seconds is not None else "")


def age(hop: HopStatus) -> str:
    """Of the oldest message that waits; a dash if none does."""
    return "-" if hop.lag_messages == 0 else duration(hop.lag_seconds)
