"""Elements of a drawing, with everything escaped. Colours come from page.css by class, so that drawings follow the theme."""

from __future__ import annotations

from markupsafe import Markup, escape


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """`element("rect", x=1, class_="bar")`: a trailing underscore is dropped, other underscores become hyphens; None leaves one out."""
    given = (
        Markup(' {}="{}"').format(name.removesuffix("_").replace("_", "-"), _show(value))
        for name, value in attributes.items()
        if value is not None
    )
    return Markup("<{0}{1}>{2}</{0}>").format(tag, Markup("").join(given), Markup("").join(map(escape, children)))


def text(words: object, x: float, y: float, class_: str = "", anchor: str = "start") -> Markup:
    """A line of text; `anchor` is start, middle or end."""
    return element("text", words, x=x, y=y, class_=class_ or None, text_anchor=anchor)


def drawing(*children: object, width: float, height: float, label: str, class_: str = "", has_links: bool = False) -> Markup:
    """A whole drawing; `label` is what a screen reader says. Inside an `img` it finds no links: a drawing that has some is a group."""
    box = f"0 0 {_show(width)} {_show(height)}"
    role = "group" if has_links else "img"
    return element("svg", *children, viewBox=box, width=width, height=height, role=role, aria_label=label, class_=class_ or None)


def _show(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
