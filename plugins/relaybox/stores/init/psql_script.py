"""A script of psql that is written with the methods of a session (stores.schema.statements).

A condition becomes an `\\if` of psql, a refusal a DO block that raises an error. So the script decides by the store that it meets.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from relaybox import errors
from relaybox.stores.sessions.settings import session_settings

Result = TypeVar("Result")


@dataclass
class Script:
    """Writes down what a session would run (stores.schema.statements). Results are unknown here: each is None or 0.

    Attributes:
        store: the store's name.
        parts: what is written so far.
    """

    store: str
    parts: list[str] = field(default_factory=list)
    _waits: str | None = None

    @property
    def text(self) -> str:
        return "\n".join(self.parts) + "\n"

    def write(self, part: str) -> None:
        self.parts.append(part)

    def note(self, text: str) -> None:
        """A comment."""
        self.write("\n".join(f"-- {line}".rstrip() for line in text.splitlines()))

    @contextmanager
    def transaction(self, purpose: str, *, may_write: bool = True) -> Iterator[None]:
        """A transaction with the settings that a session of ours has; behind a pooler each has a session of its own."""
        self.write("")
        self.note(purpose)
        # a standby accepts no `read write`: the first transaction says so better
        self.write(f"begin isolation level read committed{', read write, not deferrable' if may_write else ''};")
        settings = {"application_name": "relaybox init", **session_settings()}
        rows = ", ".join(f"({literal(name)}, {literal(value)})" for name, value in settings.items())
        self.write(
            "select pg_catalog.count(pg_catalog.set_config(s.name, s.value, true)) as relaybox_settings\n"
            f"from (values {rows}) s (name, value) where pg_catalog.current_setting(s.name, true) is not null\n\\gset"
        )
        yield
        self.write("commit;")

    def execute(self, query: str, *arguments: object) -> int:
        text = render(query, arguments).strip()
        block = re.fullmatch(r"(?:--[^\n]*\n)*do \$(\w+)\$\n(.*)\n\$\1\$;?", text, re.DOTALL)
        if self._waits is not None and block is not None:
            wrapped = f"\nbegin\n{block[2]};\n{self._waits}\nend\n".replace(";;", ";")
            text = f"do {dollar_quoted(wrapped, 'waiting')}"
        self.write(text if text.endswith(";") else f"{text};")
        return 0

    def value(self, query: str, *arguments: object) -> None:
        self.write(f"{render(query, arguments).strip()}\n\\gset relaybox_")

    def call(self, function: str, *arguments: object) -> None:
        self.value(f"select {function}({', '.join(['%s'] * len(arguments))})", *arguments)

    def when(self, condition: str, *arguments: object, do: Callable[[], Result]) -> Result | None:
        self.write(f"select coalesce((\n{render(condition, arguments).strip()}\n), false) as relaybox_condition\n\\gset")
        self.write("\\if :relaybox_condition")
        do()
        self.write("\\endif")
        return None

    def refuse(self, query: str, *arguments: object, kind: type[errors.RelayboxError]) -> None:
        code = "RB003" if issubclass(kind, errors.ConfigurationError) else "RB001"
        block = (
            "\ndeclare\n    refusal record;\nbegin\n"
            f"    for refusal in\n{render(query, arguments).strip()}\n    loop\n"
            f"        raise exception using errcode = {literal(code)},\n"
            f"            message = {literal(f'store {self.store}: ')} || refusal.told,\n"
            f"            hint = replace(refusal.next_step, 'run: relaybox init', 'run this script again');\n"
            "    end loop;\nend\n"
        )
        self.write(f"do {dollar_quoted(block, 'refuse')};")

    def set_local(self, settings: Mapping[str, str]) -> None:
        for name, value in settings.items():
            self.write(f"set local {'.'.join(map(identifier, name.split('.')))} = {_quoted(value)};")

    @contextmanager
    def waiting(self, told: str, holders_query: str, *, seconds: int) -> Iterator[None]:
        """A DO block in this block that waits too long for a lock names the sessions that hold it; the query gets the seconds."""
        holders = render(holders_query, ({"seconds": seconds},))
        self._waits = f"""exception when lock_not_available then
    declare
        holders text;
        ends text;
    begin
        select string_agg(
            h.name || ' (' || coalesce('pid ' || h.pid || ', ', '') || 'login ' || h.login || ', '
                || coalesce(h.state || ' since ' || h.since || ' UTC', 'its start needs pg_read_all_stats') || ')', ', '
        ), string_agg(h.ends, '; ')
        into holders, ends from ({holders.strip()}) h;
        raise exception using errcode = '55P03', message = {literal(f"store {self.store}: {told}: ")}
            || coalesce(holders, 'a session that has ended meanwhile') || '.',
            hint = 'Wait until it has ended, then run this script again'
            || coalesce(' (or end what hangs, as a login with pg_signal_backend: ' || ends || ')', '') || '.';
    end;"""  # noqa: S608
        yield
        self._waits = None


def render(query: str, arguments: Sequence[object]) -> str:
    """A query with its parameters in place, as psycopg2 does it: without arguments percent signs stand for themselves."""
    if not arguments:
        return query
    named = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], Mapping) else {}
    positional = iter(arguments)

    def replace(found: re.Match[str]) -> str:
        if found[0] == "%%":
            return "%"
        return literal(named[found[1]] if found[1] else next(positional))

    return re.sub(r"%%|%s|%\((\w+)\)s", replace, query)


def literal(value: object) -> str:
    """A value as SQL, whatever standard_conforming_strings is."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple):
        return f"array[{', '.join(map(literal, value))}]" if value else "'{}'"
    text = str(value).replace("'", "''")
    return "E'{}'".format(text.replace("\\", "\\\\")) if "\\" in text else f"'{text}'"


def identifier(name: str) -> str:
    """A name as SQL, in quotes where it needs them."""
    return name if re.fullmatch("relaybox(_[a-z]+)?|lock_timeout", name) else '"{}"'.format(name.replace('"', '""'))


def _quoted(text: str) -> str:
    """In dollar quotes, so that a reader sees the text of a file as it is."""
    if "\n" not in text:
        return literal(text)
    return dollar_quoted(text, "file")


def dollar_quoted(text: str, tag: str) -> str:
    """In dollar quotes whose tag is nowhere in the text: `$tag$`, `$tag1$` and so on."""
    quote = next(quote for number in itertools.count() if (quote := f"${tag}{number or ''}$") not in text)
    return f"{quote}{text}{quote}"
