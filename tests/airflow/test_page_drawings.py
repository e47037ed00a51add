"""What the page draws: maps, charts and timelines without overlaps, and everything escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relaybox.airflow.links import BatchesLink, hop_page
from relaybox.airflow.page.charts import nice_top
from relaybox.airflow.page.map_drawing import DrawnHop, draw_map
from relaybox.airflow.page.map_filter import MapFilter
from relaybox.airflow.page.map_matrix import MARKS, draw_matrix, is_too_large_to_draw
from relaybox.airflow.page.markdown import render_runbook
from relaybox.airflow.page.svg import element
from relaybox.airflow.page.timeline import bars, draw_timeline
from relaybox.monitoring.finding import RUNBOOKS
from relaybox.monitoring.hop_history import BatchTimes
from relaybox.monitoring.runbooks import read_runbooks
from relaybox.monitoring.status import HopStatus
from relaybox.routes import Hop, Routes, load_routes
from tests.airflow.many_hops import HOP_COUNT, paths, write_routes
from tests.airflow.many_hops import STORES as STORES_OF_MANY

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STORES = "abcdef"


def _path(order: list[str], count: int, is_local: bool) -> str:
    """Some stores, the first of them twice where the route begins with a local hop."""
    return order[0] * is_local + "".join(order[: count - is_local])


PATHS = st.permutations(STORES).flatmap(lambda order: st.builds(_path, st.just(order), st.integers(2, 5), st.booleans()))


def routes(directory: Path, paths: list[str]) -> Routes:
    file = directory / "relaybox.yaml"
    given_routes = {f"route{number}": {"topics": [f"topic{number}"], "path": list(path)} for number, path in enumerate(paths)}
    file.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": given_routes}))
    return load_routes(file)


def drawn(found: Routes) -> list[DrawnHop]:
    return [
        DrawnHop(HopStatus(hop, 1, 1, 0, None, False, None, None, None, 1, None, None, None, ()), "ok", 0.0, f"/{hop.name}")
        for hop in found.hops
    ]


def boxes(drawing: str, class_: str) -> list[tuple[float, ...]]:
    found = re.findall(rf'<g class="{class_}[^"]*"><rect x="(\S+)" y="(\S+)" width="(\S+)" height="(\S+)"', drawing)
    return [tuple(map(float, box)) for box in found]


@settings(deadline=None)  # it writes a file
@given(st.lists(PATHS, min_size=1, max_size=5))
def test_no_two_cards_and_no_two_stores_of_a_map_overlap(tmp_path_factory: pytest.TempPathFactory, paths: list[str]) -> None:
    """Whatever the routes are, also routes against each other and local hops."""
    found = routes(tmp_path_factory.mktemp("routes"), paths)
    drawing = str(draw_map(drawn(found), frozenset(), "#{}".format))
    cards, stores = boxes(drawing, "card"), boxes(drawing, "store")
    assert (len(cards), len(stores)) == (len(found.hops), len({store for path in paths for store in path}))
    for one, other in [*combinations(cards, 2), *combinations(stores, 2)]:
        apart = (
            one[0] + one[2] <= other[0]
            or other[0] + other[2] <= one[0]
            or one[1] + one[3] <= other[1]
            or other[1] + other[3] <= one[1]
        )
        assert apart, (one, other)


def _points(path: str) -> list[tuple[float, float]]:
    """Points along a line, close to each other."""
    here, *steps = re.findall(r"[MCL][^MCL]+", path)
    x, y = map(float, here[1:].split(","))
    points = []
    for step in steps:
        ends = [tuple(map(float, pair.split(","))) for pair in step[1:].split()]
        (x1, y1), (x2, y2), (x3, y3) = ends if step[0] == "C" else [(x, y), ends[0], ends[0]]
        for number in range(41):
            t = number / 40
            a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3
            points.append((a * x + b * x1 + c * x2 + d * x3, a * y + b * y1 + c * y2 + d * y3))
        x, y = x3, y3
    return points


@settings(deadline=None, max_examples=60)  # it writes a file
@given(st.lists(PATHS, min_size=1, max_size=5))
@example(["abc", "ac", "ca", "bc"])
def test_no_line_of_a_map_runs_through_a_card_or_a_store(tmp_path_factory: pytest.TempPathFactory, paths: list[str]) -> None:
    """Nor outside the drawing. Lines of hops that pass columns, and of those that go back, included."""
    drawing = str(draw_map(drawn(routes(tmp_path_factory.mktemp("routes"), paths)), frozenset(), "#{}".format))
    check_lines(drawing)


def check_lines(drawing: str) -> None:
    """No line runs through a card or a store, or outside the drawing."""
    obstacles = [*boxes(drawing, "card"), *boxes(drawing, "store")]
    assert obstacles
    height = float(re.findall(r'<svg viewBox="0 0 \S+ (\S+)"', drawing)[0])
    for path in re.findall(r'<path d="([^"]+)" class="edge', drawing):
        for x, y in _points(path):
            assert 0 <= y <= height
            for left, top, width, tall in obstacles:
                assert not (left + 1 < x < left + width - 1 and top + 1 < y < top + tall - 1), (path, (left, top))


def test_two_hundred_hops_over_twenty_stores_fit_on_a_screen(tmp_path: Path) -> None:
    """As a table of sources and destinations; a filter leads to cards."""
    stores = [f"store{number:02}" for number in range(20)]
    paths = [[stores[number % 20], stores[(number * 7 + number // 20 + 1) % 20]] for number in range(200)]
    file = tmp_path / "relaybox.yaml"
    given_routes = {
        f"r{number}": {"topics": [f"t{number}"], "path": path} for number, path in enumerate(paths) if path[0] != path[1]
    }
    file.write_text(yaml.safe_dump({"stores": {store: {} for store in stores}, "routes": given_routes}))
    hops = drawn(load_routes(file))
    assert is_too_large_to_draw(hops)
    matrix = str(draw_matrix(hops, frozenset({"store03"}), lambda source, destination: f"?{source}&{destination}"))
    width = float(re.findall(r'<svg viewBox="0 0 (\S+) ', matrix)[0])
    assert width <= 1_320
    counts = re.findall(r"store\d\d → store\d\d: (\d+) hops?, the worst is ok</title>", matrix)
    assert sum(map(int, counts)) == len(hops)
    some = [hop for hop in hops if MapFilter(source="store03").takes(hop)]
    assert 0 < len(some) < 20
    assert not is_too_large_to_draw(some)
    assert [hop for hop in hops if MapFilter(show="R17/").takes(hop)] == [hop for hop in hops if hop.status.hop.name == "r17/1"]
    assert [hop for hop in hops if MapFilter(health="stuck").takes(hop)] == []


def test_no_line_runs_through_a_card_where_200_hops_are_drawn(tmp_path: Path) -> None:
    """The cards of all hops at once, and those of each route, of each store, and between each two stores."""
    hops = drawn(load_routes(write_routes(tmp_path)))
    assert len(hops) == HOP_COUNT
    selections = [
        MapFilter(),
        *(MapFilter(route=route) for route in paths()),
        *(MapFilter(store=store) for store in STORES_OF_MANY),
        *(MapFilter(source=source, destination=destination) for source, destination in {hop.ends for hop in hops}),
    ]
    for wanted in selections:
        some = [hop for hop in hops if wanted.takes(hop)]
        assert some, wanted
        check_lines(str(draw_map(some, frozenset(), "#{}".format)))


def test_small_cells_of_a_matrix_tell_their_health_by_a_mark(tmp_path: Path) -> None:
    """And large ones by a word: no state is told by its colour only."""
    (hop, *_) = drawn(load_routes(write_routes(tmp_path)))
    for health, mark in MARKS.items():
        shown = str(draw_matrix([replace(hop, health=health)], frozenset(), "?{}&{}".format))
        assert f'text-anchor="middle">{health}</text>' in shown
        many = [replace(hop, health=health, status=replace(hop.status, hop=other)) for other in _to_many_stores(hop)]
        assert f'text-anchor="middle">1{mark}</text>' in str(draw_matrix(many, frozenset(), "?{}&{}".format))


def _to_many_stores(hop: DrawnHop) -> list[Hop]:
    """The hop to each of 40 stores: cells are small."""
    destination = hop.status.hop.destination
    return [replace(hop.status.hop, destination=replace(destination, name=f"store{number}")) for number in range(40)]


def test_everything_in_a_drawing_is_escaped() -> None:
    assert (
        element("text", "<b>&", title='"quoted"', font_size=1.0)
        == '<text title="&#34;quoted&#34;" font-size="1">&lt;b&gt;&amp;</text>'
    )


@given(st.floats(0.001, 10**9))
def test_an_axis_ends_at_a_round_number_above_all_values(highest: float) -> None:
    top = nice_top(highest)
    assert highest <= top <= max(0.001, 10 * highest)
    assert f"{top:.0e}"[0] in "125"


def batch(**times: float | None) -> BatchTimes:
    moment = {name: None if seconds is None else NOW + timedelta(seconds=seconds) for name, seconds in times.items()}
    copied = moment.pop("copied", None)
    times_at = {f"{name}_at": at for name, at in moment.items()}
    known = {"published_at": None, "received_at": None, "processed_at": None, "settled_at": None, **times_at}
    return BatchTimes(
        batch=1,
        row_count=5,
        slice_count=1,
        planned_at=NOW,
        copied_at=(copied,) if copied else (),
        moved_by=None,
        application=None,
        **known,
    )


@given(st.lists(st.none() | st.floats(-5, 1e6), min_size=5, max_size=5))
def test_each_bar_begins_where_the_one_before_ended(seconds: list[float | None]) -> None:
    """Also where the two stores' clocks contradict each other."""
    copied, published, received, processed, settled = seconds
    one = batch(copied=copied, published=published, received=received, processed=processed, settled=settled)
    steps = list(bars(one))
    assert [step.start for step in steps[1:]] == [step.end for step in steps[:-1]]
    assert all(step.start <= step.end for step in steps)
    assert all(before.end <= after.end for before, after in pairwise(steps))
    assert str(draw_timeline([one])).count('class="step') == len(steps)


def test_an_open_batch_says_how_many_slices_it_has() -> None:
    assert "0 of 1 slice" in str(draw_timeline([batch()]))


def test_a_runbook_passes_no_html_and_no_foreign_link() -> None:
    text = "# A *title*\n\n<script>alert(1)</script> [go](javascript:alert(1)) [out](http://elsewhere.example) [next](promotion.md)\n\n```sh\nls <x>\n```\n![p](http://x/y.png)"
    shown = render_runbook(text)
    assert "<script" not in shown
    assert "javascript:" not in re.sub(r"\[go\]\(javascript[^)]*\)", "", shown)
    assert "elsewhere" not in shown
    assert "http://x" not in shown
    assert '<a href="promotion">next</a>' in shown
    assert '<pre><code class="language-sh">ls &lt;x&gt;\n</code></pre>' in shown


def test_every_runbook_is_rendered_with_its_title() -> None:
    for runbook in read_runbooks().values():
        assert f"<h1>{runbook.title.replace('`', '')}</h1>" in re.sub(r"</?code>", "", render_runbook(runbook.text))


def test_every_finding_has_its_runbook() -> None:
    assert set(RUNBOOKS.values()) <= set(read_runbooks())


def test_a_task_links_to_the_batches_of_its_run(tmp_path: Path) -> None:
    """The address inside Airflow's frame, whatever is in the run's id."""
    (hop,) = routes(tmp_path, ["ab"]).hops

    class Operator:
        pass

    operator, key = Operator(), Operator()
    operator.hop, key.dag_id, key.run_id = hop, "relaybox_transfer__route0_1", "manual__2026-01-01T00:00:00+00:00"  # type: ignore[attr-defined]
    link = BatchesLink().get_link(operator, ti_key=key)
    assert link == (
        "/plugin/relaybox/relaybox/hops/route0/1?moved_by=relaybox_transfer__route0_1%20manual__2026-01-01T00%3A00%3A00%2B00%3A00"
    )
    assert hop_page(hop) == "/plugin/relaybox/relaybox/hops/route0/1"
