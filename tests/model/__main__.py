"""Explores the model beyond the default suite: `python -m tests.model --help`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.model.explore import explore
from tests.model.protocol import Protocol
from tests.model.rules import Bounds
from tests.model.state import STORES
from tests.model.variants import VARIANTS


def main() -> int:
    """Returns 0 when the correct protocol holds everything, or the broken one is caught; 1 otherwise."""
    options = _parser().parse_args()
    if options.list:
        for name, variant in VARIANTS.items():
            print(f"{name:32} {variant.guarantee:9} {variant.what}")
        return 0
    if options.broken:
        variant = VARIANTS[options.broken]
        print(f"{options.broken}: {variant.what}\n{variant.bounds}")
        result = explore(Protocol(variant.bounds, variant.switches), only=variant.guarantee, progress=_progress())
        print(result)
        return 0 if result.violation else 1
    bounds = Bounds(
        hops=options.hops,
        messages=tuple(options.messages),
        drivers=options.drivers,
        batch_rows=options.batch_rows,
        crashes=options.crashes,
        failovers=options.failovers,
        processed=options.processed,
        topics=options.topics,
        sends=tuple(options.sends),
        changes=options.changes,
        retention=options.retention,
        reloads=options.reloads,
        fragile=tuple(STORES.index(store) for store in options.fragile),
    )
    print(bounds)
    result = explore(Protocol(bounds), at_most=options.at_most, progress=_progress())
    print(result)
    return 0 if result.violation is None else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.model",
        description="Visits every reachable state of two hops with crashes, failovers and zombies. "
        "The defaults are 400,000 states: about two minutes.",
    )
    parser.add_argument("--hops", type=int, choices=(1, 2), default=2)
    parser.add_argument("--messages", type=int, nargs=2, default=(1, 1), metavar=("A", "B"), help="messages of the two senders")
    parser.add_argument("--drivers", type=int, default=2, help="drivers at a time; one that rests for ever is a zombie")
    parser.add_argument("--batch-rows", type=int, default=1, help="most rows of a batch")
    parser.add_argument("--crashes", type=int, default=1)
    parser.add_argument("--failovers", type=int, default=0)
    parser.add_argument("--fragile", nargs="+", choices=STORES, default=STORES, help="stores that crash or fail over")
    parser.add_argument("--processed", action="store_true", help="the last hop settles what a consumer has acknowledged")
    parser.add_argument("--topics", default="a", help="of the route at the start, as ab")
    parser.add_argument("--sends", nargs=2, default=("a", "a"), metavar=("A", "B"), help="the topic of each sender")
    parser.add_argument("--changes", type=int, default=0, help="how often the route's topics become others")
    parser.add_argument("--retention", action="store_true", help="rows of the outbox are dropped when nobody needs them")
    parser.add_argument("--reloads", action="store_true", help="a failover of the origin may be a dump and reload")
    parser.add_argument("--at-most", type=int, help="ends after this number of states")
    parser.add_argument("--broken", choices=VARIANTS, help="explore a broken protocol instead, within bounds of its own")
    parser.add_argument("--list", action="store_true", help="list the broken protocols")
    return parser


def _progress():
    started = time.monotonic()

    def show(states: int, waiting: int, depth: int) -> None:
        seconds = time.monotonic() - started
        print(
            f"{states:,} states, {waiting:,} in the next layer, {depth} steps deep, {seconds:.0f} s", file=sys.stderr, flush=True
        )

    return show


if __name__ == "__main__":
    sys.exit(main())
