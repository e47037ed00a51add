"""The page's app: every route behind Airflow's login, no route that changes anything open to another site."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from fastapi import Depends, FastAPI, Request, Response, status
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from relaybox import __version__, errors
from relaybox.airflow.page.actions import actions
from relaybox.airflow.page.api import api
from relaybox.airflow.page.bodies import BodyRefusedError
from relaybox.airflow.page.html import error_page, pages
from relaybox.airflow.page.metrics import metrics
from relaybox.airflow.page.openapi import openapi
from relaybox.airflow.page.permissions import may_see_the_page, refuse_other_origins
from relaybox.airflow.page.plain_text import printable, refuse_odd_text
from relaybox.airflow.page.store_overview import StoreOverview
from relaybox.airflow.page.threads import busy
from relaybox.monitoring.store_findings import plain_words

logger = logging.getLogger(__name__)

_ASKED_WRONGLY = (errors.NotSubscribed, errors.NoLongerKept, errors.RequestRefused)

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The page loads its own script and style and nothing else; only Airflow's pages may frame it."""


def build_app() -> FastAPI:
    """The whole app. It is mounted in Airflow's, whose auth manager it asks."""
    app = FastAPI(
        title="Relaybox",
        version=__version__,
        docs_url=None,  # FastAPI's own routes ask for no login: relaybox.airflow.page.openapi has these
        redoc_url=None,
        openapi_url=None,
        dependencies=[Depends(may_see_the_page), Depends(refuse_other_origins), Depends(refuse_odd_text)],
    )
    app.state.gathering = StoreOverview()
    app.include_router(api)
    app.include_router(actions)
    app.include_router(pages)
    app.include_router(metrics)
    app.include_router(openapi)
    app.add_exception_handler(errors.RelayboxError, _say_in_plain_words)
    app.add_exception_handler(HTTPException, _refuse)
    app.add_exception_handler(RequestValidationError, _name_fields)
    app.middleware("http")(_add_headers)
    return app


def too_many() -> Response:
    """The answer to a request that got no turn: it asked for nothing that only some may know."""
    refused = busy()
    return JSONResponse({"detail": refused.detail}, refused.status_code, {**HEADERS, **(refused.headers or {})})


def refuse_body(refused: BodyRefusedError) -> Response:
    """The answer to a request whose body did not come, or is too long."""
    return JSONResponse({"detail": str(refused)}, refused.status, {**HEADERS, "connection": "close"})


async def _add_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await call_next(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


async def _say_in_plain_words(request: Request, error: Exception) -> Response:
    """What a store said stays in the API server's log: it may name hosts, files and statements."""
    if isinstance(error, errors.UnknownMessage):
        code, said = (
            status.HTTP_404_NOT_FOUND,
            "No committed message is found by this. A message of an open transaction is not there yet.",
        )
    elif isinstance(error, _ASKED_WRONGLY):
        code, said = status.HTTP_422_UNPROCESSABLE_CONTENT, str(error.args[0])  # names of the request, and no hint of others
    elif isinstance(error, errors.Detached):
        code, said = (
            status.HTTP_409_CONFLICT,
            f"That stream position is detached. {error.next_step}",
        )  # without the directory of its files
    else:
        logger.warning("the Relaybox page could not answer %s: %s", request.scope["path"], error)
        words = plain_words(error) if isinstance(error, errors.RelayboxError) else "it answered with an error"
        code, said = status.HTTP_503_SERVICE_UNAVAILABLE, f"A store can't be read: {words}."
        if isinstance(error, errors.ConfigurationError):
            said = "relaybox.yaml, or a connection of a store, is missing or wrong; the API server's log says what."
    return _answer(request, said, code)


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  # it is registered for these
    answer = _answer(request, error.detail, error.status_code)
    answer.headers.update(error.headers or {})
    return answer


async def _name_fields(request: Request, error: Exception) -> Response:
    """Which fields are wrong and why; what stood in them is not repeated: JSON has no words for all of it."""
    assert isinstance(error, RequestValidationError)  # noqa: S101  # it is registered for these
    wrong = [f"{'.'.join(map(str, one['loc'][1:])) or 'body'}: {one['msg']}" for one in error.errors()]
    return _answer(request, printable("; ".join(wrong)), status.HTTP_422_UNPROCESSABLE_CONTENT)


def _answer(request: Request, said: str, code: int) -> Response:
    """Programs get JSON, people a page."""
    if request.headers.get("accept", "").startswith("text/html"):
        return error_page(request, said, code)
    return JSONResponse({"detail": said}, status_code=code)
