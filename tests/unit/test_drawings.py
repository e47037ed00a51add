"""The drawings of docs/ordering.md are made here, and those in docs/images are these. UPDATE_DRAWINGS=1 writes them anew."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.unit.drawings import Drawing, Message, Panel

IMAGES = Path(__file__).parents[2] / "docs" / "images"

_SENT_OUT_OF_ORDER = (Message("a2", (0, 0.6), (1, 1.6)), Message("a1", (0, 2), (1, 3)))
_REPLICAS = ("hub", "airline", "analytics")

DRAWINGS = {
    "fifo": Drawing(
        "A FIFO violation, and fifo",
        "Sender a's second message commits first. Without order the store hub delivers a2 before a1; with fifo it receives a2, "
        "holds it until a1 is there, and delivers a1, a2.",
        [
            Panel("order: none", ("airline", "hub"), _SENT_OUT_OF_ORDER, "a2, a1", is_right=False),
            Panel(
                "order: fifo",
                ("airline", "hub"),
                (Message("a2", (0, 0.6), (1, 1.6), delivered=3.8), Message("a1", (0, 2), (1, 3))),
                "a1, a2",
                is_right=True,
            ),
        ],
    ),
    "causal": Drawing(
        "A causal violation that is no FIFO violation, and causal",
        "Alice at airline asks; bob at hub reads the question and answers; the answer reaches analytics before the question. "
        "With fifo analytics delivers answer, question; with causal it holds the answer until the question is there.",
        [
            Panel(
                "order: none or fifo",
                ("airline", "hub", "analytics"),
                (
                    Message("question", (0, 0), (1, 1)),
                    Message("question", (0, 0), (2, 4.4), is_copy=True),
                    Message("answer", (1, 1.7), (2, 2.7)),
                ),
                "analytics: answer, question",
                is_right=False,
            ),
            Panel(
                "order: causal",
                ("airline", "hub", "analytics"),
                (
                    Message("question", (0, 0), (1, 1)),
                    Message("question", (0, 0), (2, 4.4), is_copy=True),
                    Message("answer", (1, 1.7), (2, 2.7), delivered=5.2),
                ),
                "analytics: question, answer",
                is_right=True,
            ),
        ],
    ),
    "total": Drawing(
        "The anomaly without total order, and total",
        "Two transactions at airline set x at once. Two hops that planned at different moments bring them in different orders: "
        "hub ends with x=1, analytics with x=2. On one path analytics copies the sequence of hub, and both end with x=1.",
        [
            Panel(
                "order: none, two hops",
                _REPLICAS,
                (
                    Message("x=2", (1, 0), (0, 1)),
                    Message("x=1", (1, 1.8), (0, 2.8)),
                    Message("x=1", (1, 1.8), (2, 2.8), is_copy=True),
                    Message("x=2", (1, 0), (2, 3.8), is_copy=True),
                ),
                "hub: x=1, analytics: x=2",
                is_right=False,
            ),
            Panel(
                "order: total, one path",
                ("airline", "hub", "analytics"),
                (
                    Message("x=2", (0, 0), (1, 1)),
                    Message("x=1", (0, 1.8), (1, 2.8)),
                    Message("x=2", (1, 1), (2, 3), is_copy=True),
                    Message("x=1", (1, 2.8), (2, 4), is_copy=True),
                ),
                "hub: x=1, analytics: x=1",
                is_right=True,
            ),
        ],
    ),
    "hierarchy": Drawing(
        "Which order does not include which",
        "Three histories. FIFO and not causal: an answer before its question, by two senders. Causal and not total: two stores "
        "deliver two unrelated messages in different orders. Total and not FIFO: both stores deliver a sender's second message first.",
        [
            Panel(
                "FIFO, not causal",
                ("airline", "hub", "analytics"),
                (
                    Message("question", (0, 0), (1, 1)),
                    Message("question", (0, 0), (2, 4.4), is_copy=True),
                    Message("answer", (1, 1.7), (2, 2.7)),
                ),
                "answer before its question",
                is_right=False,
            ),
            Panel(
                "causal, not total",
                ("hub", "airline", "analytics"),
                (
                    Message("x=1", (1, 0.6), (0, 2.6)),
                    Message("x=1", (1, 0.6), (2, 1.6), is_copy=True),
                    Message("x=2", (0, 0.6), (2, 3.6)),
                ),
                "hub: x=2, x=1; analytics: x=1, x=2",
                is_right=False,
            ),
            Panel(
                "total, not FIFO",
                ("airline", "hub", "analytics"),
                (
                    Message("a2", (0, 0.6), (1, 1.6)),
                    Message("a1", (0, 1.8), (1, 2.8)),
                    Message("a2", (1, 1.6), (2, 3), is_copy=True),
                    Message("a1", (1, 2.8), (2, 4), is_copy=True),
                ),
                "both: a2, a1",
                is_right=False,
            ),
        ],
    ),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawings_of_the_documents_are_current(name: str) -> None:
    """The file is what the drawing gives."""
    path = IMAGES / f"order-{name}.svg"
    drawn = DRAWINGS[name].svg()
    if os.environ.get("UPDATE_DRAWINGS"):
        path.write_text(drawn, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == drawn, "renew it: UPDATE_DRAWINGS=1 pytest tests/unit/test_drawings.py"


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawings_are_read_without_eyes_and_in_the_dark(name: str) -> None:
    """Each is well-formed, says in words what it shows, has colours for both schemes, and no text leaves the picture."""
    root = ET.fromstring(DRAWINGS[name].svg())  # noqa: S314  our own text
    space = "{http://www.w3.org/2000/svg}"
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert root.attrib["role"] == "img"
    assert [child.tag for child in root][:3] == [f"{space}title", f"{space}desc", f"{space}style"]
    assert "prefers-color-scheme: dark" in (root[2].text or "")
    for text in root.iter(f"{space}text"):
        x, length = float(text.attrib["x"]), len(text.text or "") * 7.0
        left = {"start": 0.0, "middle": length / 2, "end": length}[text.attrib["text-anchor"]]
        assert left <= x <= width - length + left, text.text
        assert float(text.attrib["y"]) < height
