"""Runbooks and the reference of the API as HTML: no raw HTML passes, and links lead to other runbooks, to headings or nowhere."""

from __future__ import annotations

import re
from itertools import pairwise

from markdown_it import MarkdownIt
from markupsafe import Markup

_RUNBOOK = re.compile(r"([a-z0-9-]+)\.md")


def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def render_runbook(text: str) -> Markup:
    """The page's HTML; links between runbooks are relative and stay as they are, less their `.md`."""
    markdown = _markdown()
    tokens = markdown.parse(text)
    for token in (child for block in tokens for child in block.children or ()):
        if token.type == "link_open":
            runbook = _RUNBOOK.fullmatch(str(token.attrs.get("href", "")))
            token.attrs = {"href": runbook[1]} if runbook else {}
        if token.type == "image":
            token.attrs = {"src": "", "alt": ""}
    return Markup(markdown.renderer.render(tokens, markdown.options, {}))  # noqa: S704  # all text in it went through the renderer's escaping


def render_reference(text: str) -> Markup:
    """The same of a text with links to its own headings, which get their anchors."""
    markdown = _markdown()
    tokens = markdown.parse(text)
    for opened, inline in pairwise(tokens):
        if opened.type == "heading_open":
            opened.attrs = {"id": inline.content.lower()}
    return Markup(markdown.renderer.render(tokens, markdown.options, {}))  # noqa: S704  # as above
