"""The OpenAPI document of the page's API: true, for who is logged in, and without a name that only some may know."""

from __future__ import annotations

import re

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel

from tests.airflow.page_client import PageServer
from tests.airflow.page_routes import every_route
from tests.support.services import add_route
from tests.support.world import World


@pytest.fixture
def page(page: PageServer, connected: World) -> PageServer:
    """A message has arrived; one waits for an index that has not come, and one was set aside."""
    add_route(connected.path, "salaries", topics=["salaries"], path=["airline", "hub"])
    connected.register()
    connected.send("first")
    connected.transfer_all()
    connected.query("analytics", "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    connected.query(
        "analytics", "select relaybox.nack('billing', stream_position, 'broken', token) from relaybox.fetch('billing')"
    )
    return page


def test_who_is_not_logged_in_or_may_not_see_the_page_gets_nothing_of_it(page: PageServer) -> None:
    for path in ("openapi.json", "docs"):
        answers = {user: page.client(user).get(f"/relaybox/{path}") for user in (None, "nobody", "viewer", "oncall")}
        assert [answer.status_code for answer in answers.values()] == [401, 403, 200, 200]
        assert "StreamsDocument" in answers["viewer"].text
        assert all("StreamsDocument" not in answers[user].text for user in (None, "nobody"))


def test_it_is_the_same_for_everybody_and_names_nothing_of_this_deployment(page: PageServer, connected: World) -> None:
    """It says what can be asked; stores, routes, hops and subscriptions are told by answers, to who may read them."""
    names = {
        *connected.routes.stores,
        *connected.routes.routes,
        "salaries",
        "billing",
        *(hop.name for hop in connected.routes.hops),
    }
    for path in ("openapi.json", "docs"):
        texts = {page.client(user).get(f"/relaybox/{path}").text for user in ("viewer", "oncall", "operator")}
        assert len(texts) == 1
        assert {name for name in names if re.search(rf"\\b{name}\\b", texts.copy().pop())} == set()


def test_it_lists_every_route_of_the_api_and_no_other(page: PageServer) -> None:
    document = page.client("viewer").get("/relaybox/openapi.json").json()
    assert document["servers"] == [{"url": "/relaybox"}]
    listed = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert listed == {
        (method, route.path)
        for route in page.page.routes
        if isinstance(route, APIRoute) and route.path.startswith("/api/")
        for method in route.methods
    }


def test_what_the_api_answers_is_what_it_says(page: PageServer) -> None:
    """Every answer, refusals too, is a document of the schema and has no member beside it."""
    routes = {
        (method, route.path): route for route in page.page.routes if isinstance(route, APIRoute) for method in route.methods
    }
    asked = [(key, path) for key, (_, path) in zip(routes, every_route(page.page), strict=True) if key[1].startswith("/api/")]
    assert len(asked) > 10
    for (method, template), path in asked:
        route = routes[method, template]
        for user in (None, "viewer"):
            answer = page.client(user).request(method, path)
            said: type[BaseModel] = route.response_model if answer.is_success else route.responses[answer.status_code]["model"]
            said.model_validate_json(answer.content)


def test_the_page_of_the_api_leads_from_each_document_to_those_it_holds(page: PageServer) -> None:
    shown = page.client("viewer").get("/relaybox/docs").text
    targets = set(re.findall(r'href="#([a-z]+)"', shown))
    assert {"overviewdocument", "refusaldocument", "streamsenderdocument"} <= targets
    assert targets <= set(re.findall(r'<h3 id="([a-z]+)"', shown))
