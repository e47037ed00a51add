"""What a hop or a route delivers: reliability R, uniqueness rate UR, and the delivery mode that follows from the two.

Exact fractions: one message lost of a billion is not 1. Nothing here asks a store.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import reduce


class DeliveryMode(StrEnum):
    """What may happen to a message: lost, doubled, both or neither."""

    UNRELIABLE = "unreliable"
    AT_MOST_ONCE = "at most once"
    AT_LEAST_ONCE = "at least once"
    EXACTLY_ONCE = "exactly once"

    @property
    def loses(self) -> bool:
        return self in (DeliveryMode.UNRELIABLE, DeliveryMode.AT_MOST_ONCE)

    @property
    def doubles(self) -> bool:
        return self in (DeliveryMode.UNRELIABLE, DeliveryMode.AT_LEAST_ONCE)

    def then(self, following: DeliveryMode) -> DeliveryMode:
        """The mode of two hops in a row (A0.11 to A0.14): what either loses or doubles, the whole loses or doubles."""
        return delivery_mode(loses=self.loses or following.loses, doubles=self.doubles or following.doubles)


def delivery_mode(*, loses: bool, doubles: bool) -> DeliveryMode:
    """A0.5 to A0.8."""
    if loses:
        return DeliveryMode.UNRELIABLE if doubles else DeliveryMode.AT_MOST_ONCE
    return DeliveryMode.AT_LEAST_ONCE if doubles else DeliveryMode.EXACTLY_ONCE


@dataclass(frozen=True)
class Delivery:
    """The pair {R, UR} (A0.4), each above or equal to 0 and at most 1."""

    reliability: Fraction
    uniqueness: Fraction

    @property
    def duplication(self) -> Fraction | None:
        """DR = 1 / UR (A0.2); None when nothing that was received had been sent."""
        return 1 / self.uniqueness if self.uniqueness else None

    @property
    def mode(self) -> DeliveryMode:
        return delivery_mode(loses=self.reliability < 1, doubles=self.uniqueness < 1)

    def then(self, following: Delivery) -> Delivery:
        """The delivery of two hops in a row: the products (A0.9, A0.10)."""
        return Delivery(self.reliability * following.reliability, self.uniqueness * following.uniqueness)


PERFECT = Delivery(Fraction(1), Fraction(1))


def is_no_reading(delivery: Delivery, received: int | None) -> bool:
    """Whether nothing has arrived and nothing is missing: R and UR of nothing are not shown as 1."""
    return received == 0 and delivery == PERFECT


def measure_delivery(*, sent: int, unique_received: int, received: int) -> Delivery:
    """R = unique received / sent (A0.1), UR = unique received / received (A0.3).

    Of nothing sent nothing was lost, and of nothing received nothing was doubled: both are 1 then.

    Args:
        sent: messages that are due: those still on their way are lag, not loss.
        unique_received: how many of these arrived.
        received: everything that arrived, copies and strangers included.

    Raises:
        ValueError: more unique messages than were sent or received; R and UR are never above 1.
    """
    if not 0 <= unique_received <= min(sent, received):
        raise ValueError(f"{unique_received} unique messages of {sent} sent and {received} received")
    return Delivery(_ratio(unique_received, sent), _ratio(unique_received, received))


def compose(hops: Iterable[Delivery]) -> Delivery:
    """The delivery of a route from those of its hops, in order."""
    return reduce(Delivery.then, hops, PERFECT)


def _ratio(part: int, whole: int) -> Fraction:
    return Fraction(part, whole) if whole else Fraction(1)


def show_ratio(ratio: Fraction, digits: int = 6) -> str:
    """A ratio in decimals, cut and not rounded: only 1 is shown as 1."""
    if ratio == 1:
        return "1"
    return f"0.{ratio.numerator * 10**digits // ratio.denominator:0{digits}d}"
