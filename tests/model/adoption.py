"""A model of one adopted table: two writers, a command that adopts with the backlog, or ends it, and is killed at any step.

All steps that can be taken are explored, nearest first. A row that is inserted is owed to the outbox if the table was adopted then, or
if it was there when the table was adopted with its backlog. SWITCHES break one rule each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

WRITERS = 2
TRANSACTIONS = 2
"""Of each writer, with one row each."""
KILLS = 2

SWITCHES = {
    "cut_without_lock": "the table is adopted beside a writer whose transaction is open",
    "switch_without_lock": "the trigger is switched to the outbox beside a writer whose row will wait",
    "switch_before_the_rest": "the trigger is switched, and what waits is moved in a later transaction",
    "cut_in_two": "the trigger is committed before the rows that are there are copied",
    "moved_and_kept": "a batch is put into the outbox in one transaction, and leaves those that wait in the next",
    "second_cut": "a command that finds the table adopted takes the backlog again",
    "dropped_when_ended": "ending the adoption drops what waits",
}


class Row(NamedTuple):
    """`after`: bits of the rows that had committed before it was inserted; `place`: table, waiting, or outbox."""

    number: int
    after: int
    place: str


class State(NamedTuple):
    """What is committed, and who is in the middle of what.

    Attributes:
        begun: transactions of each writer.
        open: the row that each writer has inserted and not committed.
        table: bits of the rows in the table.
        committed: bits of all rows that committed.
        waiting: rows behind the backlog, in the order of their inserts.
        outbox: numbers of the rows there, in the order of their commits.
        trigger: where it sends rows: empty (there is none), waiting, outbox.
        owed: bits of the rows that have to be in the outbox in the end.
        had_backlog: the table was adopted with its backlog once.
        command: the step that the command has reached; empty: none runs.
        taken: what an earlier transaction of the command has to finish, in broken protocols.
        fault: what went wrong.
    """

    begun: tuple[int, ...] = (0,) * WRITERS
    open: tuple[Row | None, ...] = (None,) * WRITERS
    table: int = 0
    committed: int = 0
    waiting: tuple[Row, ...] = ()
    outbox: tuple[int, ...] = ()
    trigger: str = ""
    owed: int = 0
    had_backlog: bool = False
    command: str = ""
    taken: tuple[int, ...] = ()
    ends: int = 0
    kills: int = 0
    next_row: int = 0
    fault: str = ""


def bits(numbers: Iterator[int] | tuple[int, ...]) -> int:
    return sum(1 << number for number in set(numbers))


def steps(state: State, switches: frozenset[str]) -> Iterator[tuple[str, State]]:
    """Everything that may happen next."""
    for writer in range(WRITERS):
        yield from _writer_steps(state, writer)
    yield from _command_steps(state, switches)
    if state.command and state.kills < KILLS:
        yield "the command is killed", state._replace(command="", taken=(), kills=state.kills + 1)


def _writer_steps(state: State, writer: int) -> Iterator[tuple[str, State]]:
    row = state.open[writer]
    if row is None:
        if state.begun[writer] < TRANSACTIONS and not state.command.startswith("locked"):
            yield f"writer {writer} inserts row {state.next_row}", _insert(state, writer)
        return
    closed = state._replace(open=_with(state.open, writer, None))
    yield f"writer {writer} rolls row {row.number} back", closed._replace(owed=state.owed & ~(1 << row.number))
    done = closed._replace(table=state.table | 1 << row.number, committed=state.committed | 1 << row.number)
    if row.place == "waiting":
        done = done._replace(waiting=tuple(sorted((*state.waiting, row))))
    elif row.place == "outbox":
        done = done._replace(outbox=(*state.outbox, row.number))
    yield f"writer {writer} commits row {row.number}", done


def _insert(state: State, writer: int) -> State:
    row = Row(state.next_row, state.committed, state.trigger or "table")
    after = state._replace(
        begun=_with(state.begun, writer, state.begun[writer] + 1),
        open=_with(state.open, writer, row),
        next_row=state.next_row + 1,
        owed=state.owed | (1 << row.number if state.trigger else 0),
    )
    return _checked(after, row, state.outbox) if row.place == "outbox" else after


def _checked(state: State, row: Row, before: tuple[int, ...]) -> State:
    """A row comes into the outbox: those that had committed before it was inserted are there, if they are owed at all."""
    if missing := row.after & state.owed & ~bits(before):
        return state._replace(fault=f"order: row {row.number} is in the outbox before {missing:b}, which had committed before it")
    return state


def _command_steps(state: State, switches: frozenset[str]) -> Iterator[tuple[str, State]]:
    is_free = all(row is None for row in state.open)
    if not state.command:
        yield from _first_steps(state, switches, is_free=is_free)
    elif state.command == "moves":
        if state.waiting:
            yield "a batch is moved", _move(state, state.waiting[:1], keeps="moved_and_kept" in switches)
        if is_free or "switch_without_lock" in switches:  # rows may have come behind the last batch
            switch = "switch" if "switch_without_lock" in switches else "locked switch"
            yield "it locks the table again", state._replace(command=switch)
    else:
        label, step = _NEXT[state.command.removeprefix("locked ")]
        yield label, step(state, switches)


def _first_steps(state: State, switches: frozenset[str], *, is_free: bool) -> Iterator[tuple[str, State]]:
    if not state.trigger and not state.had_backlog and (is_free or "cut_without_lock" in switches):
        yield "adopt locks the table", state._replace(command="cut" if "cut_without_lock" in switches else "locked cut")
    if state.trigger:
        yield "adopt is run again", state._replace(command="again")
        if is_free and state.ends == 0:
            yield "unadopt locks the table", state._replace(command="locked end", ends=1)


def _commit_cut(state: State, switches: frozenset[str]) -> State:
    return _cut(state, split="cut_in_two" in switches)


def _copy_later(state: State, _: frozenset[str]) -> State:
    return _copy(state)._replace(command="moves")


def _find_adopted(state: State, switches: frozenset[str]) -> State:
    again = state._replace(command="moves" if state.trigger == "waiting" or state.waiting else "")
    return _copy(again) if "second_cut" in switches else again


def _forget(state: State, _: frozenset[str]) -> State:
    waiting = tuple(row for row in state.waiting if row.number not in state.taken)
    return state._replace(waiting=waiting, taken=(), command="moves")


def _switch(state: State, switches: frozenset[str]) -> State:
    if "switch_before_the_rest" in switches:
        return state._replace(trigger="outbox", command="rest")
    return _move(state, state.waiting)._replace(trigger="outbox", command="")


def _move_rest(state: State, _: frozenset[str]) -> State:
    return _move(state, state.waiting)._replace(command="")


def _end(state: State, switches: frozenset[str]) -> State:
    moved = state._replace(waiting=()) if "dropped_when_ended" in switches else _move(state, state.waiting)
    return moved._replace(trigger="", command="")


_NEXT: Mapping[str, tuple[str, Callable[[State, frozenset[str]], State]]] = {
    "cut": ("the trigger and the backlog are committed", _commit_cut),
    "copies": ("the backlog is copied", _copy_later),
    "again": ("it finds the table adopted", _find_adopted),
    "forgets": ("what was moved is deleted", _forget),
    "switch": ("the rest is moved and the trigger switched", _switch),
    "rest": ("the rest is moved", _move_rest),
    "end": ("what waits is moved and the trigger dropped", _end),
}
"""The step of the command that has reached it, but for the moving of batches."""


def _cut(state: State, *, split: bool) -> State:
    inserted = state.committed | bits(tuple(row.number for row in state.open if row is not None))
    cut = state._replace(trigger="waiting", had_backlog=True, owed=inserted, command="copies" if split else "moves")
    return cut if split else _copy(cut)


def _copy(state: State) -> State:
    """The rows of the table come before those that wait, as their numbers do."""
    rows = tuple(Row(number, 0, "waiting") for number in range(state.next_row) if state.table >> number & 1)
    return state._replace(waiting=tuple(sorted((*rows, *state.waiting))))


def _move(state: State, rows: tuple[Row, ...], *, keeps: bool = False) -> State:
    moved = state
    for row in rows:
        moved = _checked(moved, row, moved.outbox)._replace(outbox=(*moved.outbox, row.number))
    if keeps:
        return moved._replace(taken=tuple(row.number for row in rows), command="forgets")
    return moved._replace(waiting=tuple(row for row in moved.waiting if row not in rows))


def _with(values: tuple[object, ...], index: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:index], value, *values[index + 1 :])


def violation(state: State) -> str | None:
    """What is wrong in a state; empty where everything holds."""
    if state.fault:
        return state.fault
    if len(set(state.outbox)) != len(state.outbox):
        return f"doubled: the outbox has {state.outbox}"
    if invented := bits(state.outbox) & ~state.owed:
        return f"invented: rows {invented:b} are in the outbox"
    kept = bits(state.outbox) | bits(tuple(row.number for row in state.waiting))
    if (lost := state.committed & state.owed & ~kept) and state.command != "copies":
        return f"lost: rows {lost:b} are neither in the outbox nor do they wait"
    if state.waiting and state.trigger != "waiting" and not state.command:
        return f"lost: {len(state.waiting)} rows wait, and nobody would move them"
    return None


def explore(switches: frozenset[str] = frozenset()) -> tuple[int, str | None, tuple[str, ...]]:
    """How many states there are, the first violation, and the steps that lead to it."""
    start = State()
    came_from: dict[State, tuple[State, str] | None] = {start: None}
    layer = [start]
    while layer:
        following = []
        for state in layer:
            if (found := violation(state)) is not None:
                return len(came_from), found, _trace(came_from, state)
            for label, after in steps(state, switches):
                if after not in came_from:
                    came_from[after] = (state, label)
                    following.append(after)
        layer = following
    return len(came_from), None, ()


def _trace(came_from: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    labels = []
    while (before := came_from[state]) is not None:
        state, label = before
        labels.append(label)
    return tuple(reversed(labels))
