"""Two users, each with the DAGs of one route: neither acts on the other's route, by the page, by the API or by a form."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from relaybox.airflow.approvals import as_xcom
from relaybox.airflow.dags.actions import build_redrive_dags, build_skip_dags
from relaybox.airflow.dags.replay import build_replay_dags
from relaybox.airflow.page.store_overview import StoreOverview
from relaybox.subscriptions import replays
from relaybox.subscriptions.approvals import pin_subscription
from tests.airflow.answers import answered
from tests.airflow.deferred import execute
from tests.airflow.page_client import USERS, PageServer, page_server, register_dags
from tests.airflow.route_auth_manager import ROUTE_OF_USER, SHARED_DAGS
from tests.support.services import add_route
from tests.support.world import World

STORE = "hub"
KINDS = ("replay", "redrive", "skip")
BUILDERS = {"replay": build_replay_dags, "redrive": build_redrive_dags, "skip": build_skip_dags}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageServer]:
    """An API server whose auth manager has rights per DAG."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__CORE__AUTH_MANAGER", "tests.airflow.route_auth_manager.RouteAuthManager")
        for user in ROUTE_OF_USER:
            patch.setitem(USERS, user, "op")
        with page_server(tmp_path_factory.mktemp("routes")) as server:
            yield server


@pytest.fixture
def page(server: PageServer, connected: World) -> PageServer:
    """Routes flights and crew, each with a subscription in the hub that refused a message. Airflow knows their DAGs."""
    add_route(connected.path, "crew", topics=["crew"], path=["airline", "hub"])
    connected.register()
    for topic in ("flights", "crew"):
        connected.send("a", "b", "c", topic=topic)
        connected.transfer(connected.routes.hop(f"{topic}/1"))
    for subscription, stream in (("billing", "flights"), ("roster", "crew")):
        connected.query(STORE, "select relaybox.subscribe(%s, %s, nack_limit => 1)", subscription, stream)
        connected.query(STORE, f"select * from relaybox.fetch('{subscription}'); select relaybox.nack('{subscription}', 1, 'no')")
    server.page.state.gathering = StoreOverview()
    register_dags(connected.path)
    return server


def form(kind: str, subscription: str) -> dict[str, Any]:
    if kind == "skip":
        return {"sender": "UA", "reason": "a test"}
    start = {"start": "earliest"} if kind == "replay" else {}
    return {"store": STORE, "subscription": subscription, "reason": "a test", **start}


def state(world: World) -> list[tuple[str, ...]]:
    """All that an action would change in the store."""
    query = (
        "select (select array_agg(d::text order by dead_letter_id) from relaybox_internal.dead_letter d)::text, "
        "(select array_agg(s::text order by subscription_id) from relaybox_internal.subscription s)::text, "
        "(select array_agg(r::text) from relaybox_internal.replay_range r)::text, "
        "(select array_agg(k::text) from relaybox_internal.skip k)::text"
    )
    return list(world.query(STORE, query))


@pytest.mark.parametrize(("user", "own", "foreign"), [("ann", "flights", "crew"), ("ben", "crew", "flights")])
def test_the_page_starts_actions_of_the_users_route_only(page: PageServer, user: str, own: str, foreign: str) -> None:
    subscriptions = {"flights": "billing", "crew": "roster"}
    client = page.client(user)
    for kind in (*KINDS, "replay/count"):
        body = form(kind.partition("/")[0], subscriptions[foreign])
        if kind == "replay/count":
            body.pop("reason")
        refused = client.post(f"/relaybox/api/routes/{foreign}/{kind}", json=body)
        assert refused.status_code == 403, (kind, refused.text)
    for kind in KINDS:
        started = client.post(f"/relaybox/api/routes/{own}/{kind}", json=form(kind, subscriptions[own]))
        assert started.status_code == 201, (kind, started.text)
        assert client.get(f"/relaybox/action/{kind}/{foreign}").status_code == 403
    assert client.post(f"/relaybox/api/hops/{foreign}/1/run").status_code == 403
    assert foreign not in client.get("/relaybox/streams").text
    assert foreign not in client.get("/relaybox/api/streams").text


def test_airflows_api_starts_and_changes_no_run_of_another_route(page: PageServer) -> None:
    """Nor answers for its approval, nor writes what its tasks would read. An operator of all routes has a run there."""
    for kind in KINDS:
        dag = f"/api/v2/dags/relaybox_{kind}__crew"
        ann, operator = page.client("ann"), page.client("operator")
        wanted = {"logical_date": None, "conf": form(kind, "roster")}
        run = operator.post(f"{dag}/dagRuns", json=wanted).json()["dag_run_id"]
        first = "count" if kind == "replay" else "show"
        task = f"{dag}/dagRuns/{run}/taskInstances/approve"
        refused = {
            "trigger": ann.post(f"{dag}/dagRuns", json=wanted),
            "clear": ann.post(f"{dag}/clearTaskInstances", json={"dry_run": False, "dag_run_id": run}),
            "clear the run": ann.post(f"{dag}/dagRuns/{run}/clear", json={"dry_run": False}),
            "clear in bulk": ann.post(
                "/api/v2/dags/~/clearDagRuns", json={"dag_runs": [{"dag_id": f"relaybox_{kind}__crew", "dag_run_id": run}]}
            ),
            "mark the run": ann.patch(f"{dag}/dagRuns/{run}", json={"state": "success"}),
            "mark a task": ann.patch(task, json={"new_state": "success"}),
            "approve": ann.patch(f"{task}/-1/hitlDetails", json={"chosen_options": ["Approve"], "params_input": {}}),
            "write what is shown": ann.post(
                f"{dag}/dagRuns/{run}/taskInstances/{first}/xcomEntries",
                json={"key": "return_value", "value": {}, "map_index": -1},
            ),
            "delete": ann.delete(f"{dag}/dagRuns/{run}"),
            "pause": ann.patch(f"{dag}?update_mask=is_paused", json={"is_paused": True}),
            "read": ann.get(f"{dag}/dagRuns/{run}"),
            "backfill": ann.post(
                "/api/v2/backfills",
                json={
                    "dag_id": f"relaybox_{kind}__crew",
                    "from_date": "2026-07-01T00:00:00Z",
                    "to_date": "2026-07-02T00:00:00Z",
                    "dag_run_conf": form(kind, "roster"),
                },
            ),
        }
        codes = {what: answer.status_code for what, answer in refused.items()}
        assert set(codes.values()) == {403}, codes


def test_the_shared_dags_are_not_a_routes(page: PageServer) -> None:
    for dag_id in SHARED_DAGS:
        answer = page.client("ann").post(f"/api/v2/dags/{dag_id}/dagRuns", json={"logical_date": None})
        assert answer.status_code == 403, dag_id


def test_a_form_names_no_store_of_another_route(page: PageServer) -> None:
    """Airflow refuses the run before it begins."""
    for kind in ("replay", "redrive"):
        dag = f"/api/v2/dags/relaybox_{kind}__crew/dagRuns"
        answer = page.client("ben").post(
            dag, json={"logical_date": None, "conf": {**form(kind, "billing"), "store": "analytics"}}
        )
        assert answer.status_code == 400, answer.text


@pytest.mark.parametrize("kind", ["replay", "redrive"])
def test_a_run_of_one_route_does_nothing_to_a_subscription_of_another(page: PageServer, connected: World, kind: str) -> None:
    """Airflow starts it: ann may. Its tasks fail, also if what they were shown and the approval were forged."""
    answer = page.client("ann").post(
        f"/api/v2/dags/relaybox_{kind}__flights/dagRuns", json={"logical_date": None, "conf": form(kind, "roster")}
    )
    assert answer.status_code == 200, answer.text
    conf = answer.json()["conf"]
    letter = connected.value(STORE, "select dead_letter_id from relaybox.dead_letters where subscription = 'roster'")
    number, at = connected.query(
        STORE, "select subscription_id, subscribed_at from relaybox_internal.subscription where subscription = 'roster'"
    )[0]
    pinned = {"subscription_id": number, "subscribed_at": at.isoformat()}
    shown = {
        "dead_letter_ids": [letter], "attempts": [1], "table": "|", "first_stream_position": 1, "last_stream_position": 3, **pinned
    }  # fmt: skip
    approved = {"chosen_options": ["Approve"], "responded_by_user": {"id": "1", "name": "ann"}, "clear_number": 0}
    before = state(connected)
    for task in ("count" if kind == "replay" else "show", kind):
        with pytest.raises(AirflowFailException, match="has no subscription roster to stream flights"):
            run_task(connected, kind, task, conf, {"show": shown, "count": shown, "approve": approved})
    assert state(connected) == before


def test_a_redrive_of_one_route_takes_no_letter_of_another(page: PageServer, connected: World) -> None:
    """The numbers that the approver saw were forged: the letter of crew is passed over."""
    assert page
    letter = connected.value(STORE, "select dead_letter_id from relaybox.dead_letters where subscription = 'roster'")
    approved = {"chosen_options": ["Approve"], "responded_by_user": {"id": "1", "name": "ann"}}
    pinned = as_xcom(pin_subscription(connected.routes.store(STORE), "billing", "flights"))
    before = state(connected)
    with pytest.raises(Exception, match="none of the approved dead letters was redriven"):
        run_task(
            connected,
            "redrive",
            "redrive",
            form("redrive", "billing"),
            {"show": {"dead_letter_ids": [letter], "attempts": [1], **pinned}, "approve": approved},
        )
    assert state(connected) == before


def test_a_name_that_moved_to_another_route_while_its_replay_waited_is_not_replayed(page: PageServer, connected: World) -> None:
    """The replay waits for another range. Meanwhile the subscription ends, and the other team begins one of this name."""
    assert page
    connected.query(STORE, "select relaybox_internal.ask_replay('billing', 'billing.replay', '1', '2', 'first', 'other')")

    def moved(_: object) -> None:
        assert connected.value(STORE, "select stream from relaybox.subscriptions where subscription = 'billing'") == "flights"
        connected.query(STORE, "select relaybox.unsubscribe('billing'); select relaybox.subscribe('billing', 'crew')")

    with pytest.raises(AirflowFailException, match="has no subscription billing to stream flights"):
        run_task(connected, "replay", "replay", {**form("replay", "billing"), "start": "2", "through": "3"}, {}, deferred=moved)
    assert connected.value(STORE, "select stream from relaybox.subscriptions where subscription = 'billing'") == "crew"
    ranges = "select count(*) from relaybox.replay_ranges where ended_at is null"
    assert connected.value(STORE, ranges) == 0
    assert connected.value(STORE, "select count(*) from relaybox.subscriptions where replay_of = 'billing'") == 0


def test_letters_of_an_ended_subscription_to_another_stream_are_not_shown(page: PageServer, connected: World) -> None:
    """The name has moved: the table that is approved names no message of the other route."""
    assert page
    connected.query(STORE, "select relaybox.unsubscribe('roster'); select relaybox.unsubscribe('billing')")
    connected.query(STORE, "select relaybox.subscribe('roster', 'flights', nack_limit => 1)")
    connected.query(STORE, "select * from relaybox.fetch('roster'); select relaybox.nack('roster', 1, 'no')")
    shown = run_task(connected, "redrive", "show", form("redrive", "roster"), {})
    own = connected.query(
        STORE, "select dead_letter_id from relaybox.dead_letters where subscription = 'roster' and stream = 'flights'"
    )
    assert [(letter,) for letter in shown["dead_letter_ids"]] == own


def test_a_request_without_a_stream_is_not_compared(page: PageServer, connected: World) -> None:
    """The command `relaybox replay` asks the store, and names no route."""
    assert page
    order = replays.ReplayRequest("roster", "1", "2", "why", "roster.replay", "ann")
    assert replays.ask_replay(connected.routes.store(STORE), order).state == "begun"


def run_task(world: World, kind: str, task_id: str, conf: dict[str, Any], pulled: dict[str, Any], **waiting: Any) -> Any:
    """Executes a task of the DAG of route flights, as a run that ann started would."""
    dag = BUILDERS[kind](world.routes)[f"relaybox_{kind}__flights"]
    run = SimpleNamespace(
        dag_id=dag.dag_id, run_id="r1", run_type="manual", clear_number=0, triggering_user_name="ann",
        data_interval_start=None, data_interval_end=None,
    )  # fmt: skip

    def pull(task_ids: str) -> Any:
        return answered(pulled, kind).get(task_ids)

    ti = SimpleNamespace(try_number=1, xcom_pull=pull)
    params = {**{name: dag.params[name] for name in dag.params}, **conf}
    return execute(dag.get_task(task_id), {"params": params, "dag_run": run, "ti": ti}, **waiting)
