"""The OpenAPI document of the page's API, and the same for people: for those who may see the page, as every route of it."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from relaybox.airflow.page.html import base_of, show_page
from relaybox.airflow.page.markdown import render_reference
from relaybox.airflow.page.threads import in_page_thread
from relaybox.documents.reference import describe_documents, describe_requests, link_to

openapi = APIRouter(include_in_schema=False)


@openapi.get("/openapi.json")
async def read_openapi(request: Request) -> Response:
    """It says what can be asked, not what there is: the same for every user, without a name of a store, a route or a hop."""
    return await in_page_thread(lambda: Response(json.dumps(_schema(request)), media_type="application/json"))


@openapi.get("/docs")
async def show_openapi(request: Request) -> Response:
    """Without scripts of another site, which the page does not load."""
    return await in_page_thread(lambda: show_page(request, "openapi.html", body=render_reference(_markdown(_schema(request)))))


def _schema(request: Request) -> dict[str, Any]:
    app: FastAPI = request.app
    return {**app.openapi(), "servers": [{"url": base_of(request) or "/"}]}


def _markdown(schema: dict[str, Any]) -> str:
    documents = describe_documents(dict(sorted(schema["components"]["schemas"].items())))
    refused = f"A request that is refused gets a {link_to('RefusalDocument')}."
    return "\n".join(["# API", "", refused, "", *describe_requests(schema), "", "## Documents", *documents])
