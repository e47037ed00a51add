"""Adopted tables, on a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import yaml

from relaybox.adoption.mapping import write_map
from relaybox.adoption.tables import find_written
from relaybox.amounts import amount
from relaybox.cli.printable import print_text
from relaybox.cli.terminal.bars import new_bar
from relaybox.cli.terminal.tables import new_table, open_console

if TYPE_CHECKING:
    from relaybox.adoption.adopting import Adoption, Progress, SentUnmapped, Unadopted
    from relaybox.adoption.examination import Examination, PreviewedMessage
    from relaybox.adoption.tables import WantedAdoption
    from relaybox.routes import Store

_SHOWN_CHARACTERS = 60


@contextmanager
def backlog_bar(table: str) -> Iterator[Progress]:
    """Shows a bar over the messages of a backlog."""
    with new_bar() as bar:
        task = bar.add_task(f"{table} backlog", total=None, visible=False)
        yield lambda moved, total: bar.update(task, completed=moved, total=total, visible=True)


def describe_adoption(done: Adoption, sent: SentUnmapped | None) -> str:
    """What `relaybox adopt` did, in sentences."""
    said = [_describe_change(done)]
    if any(change.startswith("trigger") for change in done.changed):
        said.append("Rows that were inserted while a trigger was missing or off are in the table and not in the outbox.")
    if done.moved_count:
        said.append(_describe_moved(done))
    if done.is_new:
        said.append(f"Writers were kept out for {done.locked_seconds:.2f} s.")
    if sent is not None:
        said.append(
            f"Of the unmapped rows {amount(sent.sent_count, 'was', 'were')} sent now, {amount(sent.left_count, 'is', 'are')} left."
        )
        said += [f"{amount(one.row_count, 'row')}: {one.problem}, such as {one.first_rows[0]}." for one in sent.left]
    elif done.unmapped_count:
        said.append(
            f"{amount(done.unmapped_count, 'row is', 'rows are')} unmapped: no message, and kept apart. "
            f"Correct the map, then run: relaybox adopt {done.store} {done.table} --send-unmapped."
        )
    said += [f"Note: {one.problem}. {one.next_step}".rstrip() for one in done.examination.obstacles]
    if not done.wanted.is_in_file:
        said.append(f"Write this into relaybox.yaml, which decides from then on:\n{write_section(done.store, done.wanted)}")
    return " ".join(said).rstrip()


def _describe_change(done: Adoption) -> str:
    if done.is_new:
        return f"{done.store}: table {done.table} is adopted. What is inserted from now on is sent."
    if done.taken_over:
        return (
            f"{done.store}: table {done.table} is adopted, and has taken over the adoption of {', '.join(done.taken_over)}. "
            "What is inserted from now on is sent, by the name of the table and of each partition."
        )
    return f"{done.store}: table {done.table} was adopted before. Changed: {', '.join(done.changed) or 'nothing'}."


def _describe_moved(done: Adoption) -> str:
    moved, order = amount(done.moved_count, "message"), ", ".join(done.examination.order)
    if done.taken_over:
        return f"{moved} moved into the outbox: of rows that had no message yet, and what was inserted meanwhile."
    if done.is_new and done.moved_count == done.backlog_count:
        return f"{moved} of the backlog moved into the outbox, ordered by {order}."
    return f"{moved} moved into the outbox: what was left of the backlog, and behind it what was inserted meanwhile."


class _Section(yaml.SafeDumper):
    """Writes a text that has quotes of its own in double quotes, as docs/adopt.md does."""


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if "'" in text else None)


_Section.add_representer(str, _write_text)


def write_section(store: str, wanted: WantedAdoption) -> str:
    """What relaybox.yaml says of the table."""
    table = {**write_map(wanted.mapping), "on_unmapped": wanted.on_unmapped}
    name = wanted.table.name.replace('"', "")
    return yaml.dump({"stores": {store: {"adopt": {name: table}}}}, Dumper=_Section, sort_keys=False, width=200).rstrip()


def describe_unadopted(done: Unadopted, store: Store) -> str:
    """What `relaybox unadopt` did, in sentences."""
    if not done.was_adopted:
        return f"{done.store}: table {done.table} is not adopted"
    said = [f"{done.store}: table {done.table} is not adopted any more. What is inserted from now on is not sent."]
    if done.moved_count:
        said.append(f"{amount(done.moved_count, 'message')} that waited moved into the outbox.")
    if done.dropped_count:
        said.append(f"{amount(done.dropped_count, 'unmapped row is', 'unmapped rows are')} given up.")
    if (written := find_written(store, done.table.replace('"', ""))) is not None:
        said.append(f"Take stores.{store.name}.adopt.{written.name} out of relaybox.yaml.")
    return " ".join(said)


def show_plan(store: str, wanted: WantedAdoption, examination: Examination) -> None:
    """What is in the way, the map, and the first rows as they would travel."""
    console = open_console()
    for one in examination.obstacles:
        console.print(f"{'in the way' if one.is_refusal else 'note'}: {one.problem}. {one.next_step}".rstrip())
    for rows in examination.unmapped:
        if wanted.on_unmapped == "fail":
            told = f"in the way: {amount(rows.row_count, 'row')} can't be a message"
        else:
            told = f"note: {amount(rows.row_count, 'row')} can't be a message; --backlog keeps them apart as unmapped"
        print_text(f"{told}: {rows.problem}. The first:")
        for row in rows.first_rows:
            print_text(f"  {row}")
    if examination.unmapped and wanted.on_unmapped == "fail":
        print_text(
            "Correct the rows or the map, or let such rows be set aside: on_unmapped: set_aside, or --on-unmapped set_aside"
        )
    print_text(f"\n{write_section(store, wanted)}\n")
    if examination.order:
        console.print(f"A backlog is ordered by {', '.join(examination.order)}.")
    table = new_table("message_id", "topic", "sender", "key", "headers", "payload")
    for message in examination.messages:
        table.add_row(
            *(str(message.message_id or "(new)"), message.topic or "-", message.sender or "-", message.key or "-"),
            *(json.dumps(message.headers, ensure_ascii=False) if message.headers else "-", _show_payload(message)),
        )
    if examination.messages:
        console.print(table)
    elif not examination.refusals:
        console.print("The table is empty.")
    console.print("Nothing was changed.")


def _show_payload(message: PreviewedMessage) -> str:
    if message.problem is not None:
        return f"not sent: {message.problem}"
    if message.payload_bytes is not None:
        shown = bytes(message.payload_bytes)
        return f"{len(shown):,} bytes: {shown[:20].hex()}{' ...' if len(shown) > 20 else ''}"
    text = message.payload or ""
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} ..."
