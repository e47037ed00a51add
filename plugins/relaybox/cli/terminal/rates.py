"""R, UR and the delivery mode, as three columns of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.cli.terminal.tables import styled
from relaybox.verification.reliability import is_no_reading, show_ratio

if TYPE_CHECKING:
    from rich.text import Text

    from relaybox.verification.reliability import Delivery


def show_rates(delivery: Delivery | None, received: int | None) -> tuple[str | Text, str | Text, str | Text]:
    """Returns ? if a store did not answer, - if nothing has arrived yet."""
    if delivery is None:
        return "?", "?", "?"
    if is_no_reading(delivery, received):
        return "-", "-", "nothing yet"
    perfect = delivery.reliability == delivery.uniqueness == 1
    return (
        show_ratio(delivery.reliability),
        show_ratio(delivery.uniqueness),
        styled((delivery.mode, "green" if perfect else "red")),
    )
