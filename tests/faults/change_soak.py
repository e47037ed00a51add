"""The second half of a soak: under load the file and settings change, stores are restored, rows are dropped, at random, for a long time.

A producer sends all the while and keeps the log of what it committed; an operator does whatever the state machine of
change_machine.py can do, drawn from a seed, and after every action the stores are compared with that log.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import psycopg2

from tests.faults.change_cells import machine_in
from tests.faults.change_machine import INIT_STATEMENTS, ChangeMachine
from tests.faults.changes import BOTH, CHANGES
from tests.faults.restores import RESTORES, Databases
from tests.faults.settings import SIMPLE, set_for_database, set_for_role
from tests.support.patience import patience
from tests.support.world import STORES, World

BATCH_ROWS = 100
PAUSE_SECONDS = 0.02
LIKELIER = {"move": 6, "retention": 2, "change": 2}
"""Nothing would ever be moved, or dropped, if every action were as likely as every other."""


@dataclass
class ChangeSoak:
    """What was done, how often, and what was wrong."""

    seconds: float = 0.0
    messages: int = 0
    dropped: int = 0
    actions: dict[str, int] = field(default_factory=dict)
    breaches: list[str] = field(default_factory=list)


class _Producer(threading.Thread):
    """Sends until it is told to stop; `quiet` is held by who copies or restores the store that it sends in."""

    def __init__(self, machine: ChangeMachine, seed: int) -> None:
        super().__init__(daemon=True)
        self._machine, self._chance = machine, random.Random(f"producer {seed}")
        self.quiet, self.is_stopping = threading.Lock(), threading.Event()
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.is_stopping.wait(PAUSE_SECONDS):
                with self.quiet:
                    count = self._chance.randint(1, 6)
                    self._machine.send(count, self._chance.choice([BOTH, BOTH[:1], BOTH[1:]]), self._chance.random() > 0.1)
        except psycopg2.Error as error:
            self.failed = error

    def stop(self) -> None:
        self.is_stopping.set()
        self.join(patience(60.0))
        assert not self.is_alive()
        if self.failed is not None:
            raise self.failed


def soak_changes(world: World, databases: Databases, *, seconds: float, seed: int) -> ChangeSoak:
    """Acts at random until the time is over; then all topics are routed again, and everything must have arrived.

    Args:
        world: three stores without messages, with small segments.
        databases: where they are, for restores.
        seconds: how long.
        seed: of the producer and of the operator.
    """
    started, result, counts = time.monotonic(), ChangeSoak(), Counter[str]()
    chance, last = random.Random(f"operator {seed}"), "the start"
    try:
        with machine_in(world, databases, batch_rows=BATCH_ROWS) as machine:
            machine.transfer_at_most_seconds = 1.0
            producer = _Producer(machine, seed)
            producer.start()
            try:
                while time.monotonic() < started + seconds:
                    actions = _actions(machine, producer, chance)
                    (name,) = chance.choices(list(actions), [LIKELIER.get(name, 1) for name in actions])
                    last = name
                    actions[name]()
                    counts[name] += 1
                    machine.require_nothing_lost()
            finally:
                producer.stop()
                result.actions = dict(sorted(counts.items()))
                result.messages = len(machine.account.sent)
                result.dropped = result.messages - len(machine.account.seen.outbox)
    except AssertionError as error:
        result.breaches.append(f"after {last}: {error}")
    result.seconds = round(time.monotonic() - started, 1)
    return result


def _actions(machine: ChangeMachine, producer: _Producer, chance: random.Random) -> Mapping[str, Callable[[], None]]:
    """Every action by name."""
    number, which = chance.choice([0, 1]), chance.choice([0, 1])
    change = chance.choice(sorted(CHANGES))

    def back_up() -> None:
        with producer.quiet:
            machine.back_up()

    def restore() -> None:
        with producer.quiet:
            if machine.backup is not None:
                topics, same_timeline = chance.choice([BOTH, BOTH[:1], BOTH[1:]]), chance.choice([False, True])
                machine.restore(chance.choice(RESTORES), 6, topics, same_timeline)

    def move() -> None:
        for hop in (0, 1):
            machine.transfer(hop, which)
        machine.settle(which)

    def retire() -> None:
        with producer.quiet:
            machine.retire_weather()

    def set_something() -> None:
        setting, put = chance.choice(SIMPLE), chance.choice([set_for_role, set_for_database])
        machine.set_in_a_store(setting, chance.choice(STORES), put)

    return {
        "move": move,
        "transfer_and_die": lambda: machine.transfer_and_die(
            number=number, which=which, slices=chance.randint(0, 2), from_the_last=chance.choice([False, True])
        ),
        "retention": lambda: machine.retention(which),
        "change": lambda: machine.change(change, which),
        "change_and_die": lambda: machine.change_and_die(change, chance.randint(0, INIT_STATEMENTS)),
        "init_again": lambda: machine.init_again(which),
        "rename_a_store": machine.rename_a_store,
        "change_order": lambda: machine.change_order(None),
        "change_order_and_die": lambda: machine.change_order(chance.randint(0, INIT_STATEMENTS)),
        "retire_topic": retire,
        "set_in_a_store": set_something,
        "reset_settings": lambda: machine.set_in_a_store(None, chance.choice(STORES)),
        "back_up": back_up,
        "restore": restore,
    }
