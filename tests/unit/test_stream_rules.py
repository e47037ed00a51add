"""Streams in relaybox.yaml: what could not keep its order is refused when the file is read, with the reason."""

from __future__ import annotations

import time
from itertools import pairwise, permutations, product
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from relaybox.errors import ConfigurationError
from relaybox.routes import Routes, load_routes
from tests.support.patience import patience

STORES = ("a", "b", "c")


def route(path: str, order: str = "causal", stream: str | None = "chat", topics: str = "chat", **others: Any) -> dict[str, Any]:
    """A route along the stores of `path`, one letter each."""
    named = {} if stream is None else {"stream": stream}
    return {"topics": topics.split(), "path": list(path), "order": order, **named, **others}


def load(directory: Path, routes: dict[str, Any], stores: tuple[str, ...] = STORES) -> Routes:
    path = directory / "relaybox.yaml"
    path.write_text(yaml.safe_dump({"stores": {store: {} for store in stores}, "routes": routes}, sort_keys=False))
    return load_routes(path)


def problems(directory: Path, routes: dict[str, Any], stores: tuple[str, ...] = STORES) -> list[str]:
    """Each problem without the file and the line."""
    with pytest.raises(ConfigurationError) as caught:
        load(directory, routes, stores)
    return [line.split(": ", 1)[1] for line in str(caught.value).split("\n")[1:]]


@pytest.mark.parametrize(
    "paths",
    [
        ("ab",),
        ("abc",),
        ("ab", "ac"),
        ("abc", "bbc"),
        ("aa", "ab", "bb", "ba"),
        ("aab", "bba"),
        ("aabc", "bbca", "ccab"),
        ("ac", "bc"),
    ],
)
def test_complete_causal_groups_are_taken(tmp_path: Path, paths: tuple[str, ...]) -> None:
    """Every store that is arrived in gets the messages of every origin, once."""
    routes = load(tmp_path, {f"r{number}": route(path) for number, path in enumerate(paths)})
    assert {hop.stream for hop in routes.hops} == {"chat"}


@pytest.mark.parametrize(
    ("paths", "missing"),
    [
        (("ab", "ba"), "[a, a], [b, b]"),
        (("aab", "bb"), "[b, a]"),
        (("aa", "bb"), "[a, b], [b, a]"),
        (("abc", "bc"), "[b, b]"),
        (("ab", "bc"), "[a, c], [b, b]"),
    ],
)
def test_incomplete_causal_group_names_the_missing_routes(tmp_path: Path, paths: tuple[str, ...], missing: str) -> None:
    """A store that gets the answers of one origin and not the questions of another could never deliver them."""
    (found,) = problems(tmp_path, {f"r{number}": route(path) for number, path in enumerate(paths)})
    assert found == (
        f"routes.r0.stream: stream chat lacks causal routes with path {missing}; "
        "expected every store of a causal stream to get the messages of each of its origins: "
        "else an answer could come without its question"
    )


@pytest.mark.parametrize(("paths", "way"), [(("ab", "ab"), ("a", "b")), (("abc", "ab"), ("a", "b")), (("ab", "acb"), ("a", "b"))])
def test_store_reached_twice_from_one_origin_is_refused(tmp_path: Path, paths: tuple[str, ...], way: tuple[str, str]) -> None:
    """Each of its messages would be in two logs of one stream."""
    found = problems(tmp_path, {f"r{number}": route(path) for number, path in enumerate(paths)})
    assert found[0] == (
        f"routes.r1.path: store {way[1]} gets the messages of {way[0]} by route r0 too; "
        f"expected one way from {way[0]} to {way[1]} in stream chat: each message would be delivered twice"
    )


@pytest.mark.parametrize(("first", "second"), [("none", "none"), ("fifo", "causal"), ("causal", "fifo"), ("total", "causal")])
def test_only_causal_routes_share_a_stream(tmp_path: Path, first: str, second: str) -> None:
    """Any other order is one of a single log."""
    found = problems(tmp_path, {"r": route("ab", first), "s": route("cb", second, topics="other")})
    assert found == [
        'routes.s.stream: got "chat", the stream of route r too; expected a stream of its own: only causal routes may share one'
    ]


def test_stream_named_like_another_route_is_that_routes(tmp_path: Path) -> None:
    """A route that names no stream has one of its own name."""
    found = problems(tmp_path, {"chat": route("ab", "fifo", None), "s": route("cb", "fifo", "chat", "other")})
    assert [line.split(";")[0] for line in found] == ['routes.s.stream: got "chat", the stream of route chat too']


def test_routes_of_a_stream_carry_the_same_topics(tmp_path: Path) -> None:
    """A clock counts what its sender had delivered of every topic of the group. Their order in the list means nothing."""
    load(tmp_path, {"r": route("ac", topics="x y"), "s": route("bc", topics="y x")})
    assert problems(tmp_path, {"r": route("ac", topics="x y"), "s": route("bc", topics="x z")}) == [
        'routes.s.topics: got "x", "z"; expected the topics of route r, "x", "y": both are causal in stream chat'
    ]


def test_routes_of_a_stream_have_one_window_and_one_pair_of_limits(tmp_path: Path) -> None:
    """A store keeps them once per stream; a written default is the default."""
    written = {"message_id_window": 0, "limits": {"holdback_rows": 10_000, "fragments": 1_000_000}}
    load(tmp_path, {"r": route("ac"), "s": route("bc", **written)})
    other = {"message_id_window": 5, "limits": {"holdback_rows": 7, "fragments": 500, "batch_rows": 9}}
    assert problems(tmp_path, {"r": route("ac"), "s": route("bc", **other)}) == [
        "routes.s.message_id_window: got 5; expected 0, as in route r: both are in stream chat",
        "routes.s.limits.holdback_rows: got 7; expected 10000, as in route r: both are in stream chat",
        "routes.s.limits.fragments: got 500; expected 1000000, as in route r: both are in stream chat",
    ]


@pytest.mark.parametrize("other", ["none", "fifo", "causal"])
def test_total_route_shares_no_topic(tmp_path: Path, other: str) -> None:
    """Two first logs would put the topic's messages into two sequences, whichever route stands first."""
    total, shared = route("abc", "total", None, "x y"), route("ab", other, None, "y z")
    for routes in ({"t": total, "r": shared}, {"r": shared, "t": total}):
        (found,) = problems(tmp_path, routes)
        assert found == (
            'routes.t.order: topic "y" is carried by route r too: it would need two sequencers; '
            "expected a topic of its own. Put the stores on one path"
        )
    load(tmp_path, {"t": total, "r": {**shared, "topics": ["z"]}})


def test_of_two_total_routes_the_later_is_refused(tmp_path: Path) -> None:
    """One problem, not two for the same thing."""
    found = problems(tmp_path, {"t": route("ab", "total", None), "u": route("ac", "total", None)})
    assert [line.split(":")[0] for line in found] == ["routes.u.order"]


def test_values_of_a_wrong_kind_hide_nothing_else(tmp_path: Path) -> None:
    """They are refused by their own rule, and the rest of the stream is checked all the same."""
    found = problems(
        tmp_path,
        {"r": route("ab", stream=5), "s": {"order": ["total"], "path": 7}, "t": None, "u": route("ab"), "v": route("ab")},
    )  # type: ignore[arg-type]
    assert {line.split(":")[0] for line in found} == {
        "routes.r.stream", "routes.s.order", "routes.s.path", "routes.s.topics", "routes.t.path", "routes.t.topics", "routes.v.path",
    }  # fmt: skip


def test_huge_stream_is_checked_in_a_moment(tmp_path: Path) -> None:
    """Two thousand origins that reach nobody else's store: millions of routes are missing, a few are named, all counted."""
    count = 2_000
    routes = {f"r{n}": {"topics": ["x"], "path": [f"o{n}", f"d{n}"], "order": "causal", "stream": "s"} for n in range(count)}
    started = time.monotonic()
    (found,) = problems(tmp_path, routes, tuple(f"{kind}{n}" for kind in "od" for n in range(count)))
    assert "[o0, d1], [o0, d2], [o0, d3], [o0, d4], [o0, d5] and 3997995 more; expected" in found
    assert time.monotonic() - started < patience(60)


paths = st.lists(
    st.sampled_from([*permutations(STORES, 2), *permutations(STORES, 3), *((s, s) for s in STORES)]), min_size=1, max_size=6
)


@settings(deadline=None)
@given(paths=paths)
def test_causal_group_is_taken_if_and_only_if_each_way_is_there_once(
    tmp_path_factory: pytest.TempPathFactory, paths: list[tuple[str, ...]]
) -> None:
    """Brute force: every origin with every store that is arrived in, counted."""
    ways = [(path[0], store) for path in paths for _, store in pairwise(path)]
    wanted = list(product({origin for origin, _ in ways}, {store for _, store in ways}))
    routes = {f"r{number}": route("".join(path)) for number, path in enumerate(paths)}
    directory = tmp_path_factory.getbasetemp()
    if sorted(ways) == sorted(wanted):
        load(directory, routes)
    else:
        assert problems(directory, routes)
