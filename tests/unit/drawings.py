"""Space-time diagrams as SVG text: a vertical line per store or sender, time downwards, an arrow per message.

A message that was received and not yet delivered is an open circle; the dashed line beneath it leads to its delivery, a full one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from xml.sax.saxutils import escape

COLUMN, STEP, HEAD, MARGIN = 124, 30, 74, 88
"""Pixels between lines, per unit of time, above the first moment, and beside the outer lines of a panel."""

STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600 } .small { font-size: 12px; fill: #59636e }
  .line { stroke: #818b98; stroke-width: 1.5 } .arrow { stroke: #0969da; stroke-width: 1.5; fill: none } .tip { fill: #0969da }
  .delivered { fill: #0969da } .received { fill: #ffffff; stroke: #bc4c00; stroke-width: 2 }
  .held { stroke: #bc4c00; stroke-width: 3; stroke-dasharray: 3 3 } .wrong { fill: #d1242f; font-weight: 600 } .right { fill: #1a7f37; font-weight: 600 }
  .ground { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .small { fill: #9198a1 } .line { stroke: #656c76 } .arrow { stroke: #4493f8 } .tip { fill: #4493f8 }
    .delivered { fill: #4493f8 } .received { fill: #0d1117; stroke: #db6d28 } .held { stroke: #db6d28 }
    .wrong { fill: #f85149 } .right { fill: #3fb950 } .ground { fill: #0d1117 }
  }
"""


@dataclass(frozen=True)
class Message:
    """An arrow. Columns count from 0, moments from the top; `delivered` after `received`: held back between.

    `is_copy`: another arrow begins there with the same message, and has its name.
    """

    label: str
    sent: tuple[int, float]
    received: tuple[int, float]
    delivered: float | None = None
    is_copy: bool = False

    @property
    def last(self) -> float:
        return max(self.received[1], self.delivered or 0)


@dataclass(frozen=True)
class Panel:
    """One history: its lines, its messages, and what came of it, said beneath (`is_right`: without an anomaly)."""

    title: str
    lines: Sequence[str]
    messages: Sequence[Message]
    outcome: str
    is_right: bool

    @property
    def width(self) -> int:
        return 2 * MARGIN + COLUMN * (len(self.lines) - 1)


@dataclass(frozen=True)
class Drawing:
    """Panels beside each other; `description` says it all in words, for those who don't see it."""

    title: str
    description: str
    panels: Sequence[Panel]

    def svg(self) -> str:
        """The file's whole text."""
        width = sum(panel.width for panel in self.panels)
        end = HEAD + STEP * (max(message.last for panel in self.panels for message in panel.messages) + 1)
        offsets = accumulate((panel.width for panel in self.panels), initial=0)
        body = [part for panel, offset in zip(self.panels, offsets, strict=False) for part in _panel(panel, left=offset, end=end)]
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {end + 44:g}" width="{width}" height="{end + 44:g}" role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<desc>{escape(self.description)}</desc>",
                f"<style>{STYLE}</style>",
                f'<rect class="ground" width="{width}" height="{end + 44:g}"/>',
                *body,
                "</svg>\n",
            ]
        )


def _panel(panel: Panel, *, left: int, end: float) -> Iterator[str]:
    middle = left + panel.width / 2
    yield _text(middle, 24, panel.title, "title")
    for column, name in enumerate(panel.lines):
        x = _x(left, column)
        yield _text(x, 52, name, "small")
        yield f'<line class="line" x1="{x}" y1="{HEAD - 12}" x2="{x}" y2="{end:g}"/>'
    for message in sorted(panel.messages, key=lambda message: message.delivered is None):
        yield from _arrow(message, left=left)
    yield _text(middle, end + 28, panel.outcome, "right" if panel.is_right else "wrong")


def _arrow(message: Message, *, left: int) -> Iterator[str]:
    (x1, y1), (x2, y2) = (_at(left, *message.sent), _at(left, *message.received))
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    tip_x, tip_y = x2 - 6 * dx, y2 - 6 * dy
    yield f'<line class="arrow" x1="{x1:g}" y1="{y1:g}" x2="{tip_x:.1f}" y2="{tip_y:.1f}"/>'
    back_x, back_y = tip_x - 9 * dx, tip_y - 9 * dy
    points = f"{tip_x:.1f},{tip_y:.1f} {back_x - 4 * dy:.1f},{back_y + 4 * dx:.1f} {back_x + 4 * dy:.1f},{back_y - 4 * dx:.1f}"
    yield f'<polygon class="tip" points="{points}"/>'
    if not message.is_copy:
        yield _name(x1, y1, message.label, leftwards=message.sent[0] == 0)
    leftwards = x2 < x1
    if message.delivered is None:
        yield f'<circle class="delivered" cx="{x2:g}" cy="{y2:g}" r="5"/>'
        yield _name(x2, y2, message.label, leftwards=leftwards)
        return
    _, y3 = _at(left, message.received[0], message.delivered)
    yield f'<line class="held" x1="{x2:g}" y1="{y2 + 6:g}" x2="{x2:g}" y2="{y3:g}"/>'
    yield f'<circle class="received" cx="{x2:g}" cy="{y2:g}" r="5"/>'
    yield f'<circle class="delivered" cx="{x2:g}" cy="{y3:g}" r="5"/>'
    yield _name(x2, y2, f"{message.label} held", leftwards=leftwards, style="small")
    yield _name(x2, y3, message.label, leftwards=leftwards)


def _name(x: float, y: float, text: str, *, leftwards: bool, style: str = "") -> str:
    """Of a message, beside a line; to the right a bit higher, where arrows leave downwards."""
    return _text(x - 10, y + 5, text, style, anchor="end") if leftwards else _text(x + 10, y - 4, text, style, anchor="start")


def _at(left: int, column: int, moment: float) -> tuple[float, float]:
    return _x(left, column), HEAD + STEP * moment


def _x(left: int, column: int) -> int:
    return left + MARGIN + COLUMN * column


def _text(x: float, y: float, text: str, style: str = "", *, anchor: str = "middle") -> str:
    kind = f' class="{style}"' if style else ""
    return f'<text{kind} x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
