"""What the plugin mounts: an app that is built at its first request.

Every component imports the plugin, tasks and triggers too; only the API server serves requests, and only it pays for the page.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from relaybox.airflow.page.urls import AIRFLOW

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.types import Receive, Scope, Send

    from relaybox.airflow.page.turns import Turns


class MountedPage:
    """An ASGI app."""

    @cached_property
    def app(self) -> FastAPI:
        """The page's app itself."""
        from relaybox.airflow.page.app import build_app

        return build_app()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from relaybox.airflow.page.app import refuse_body, too_many
        from relaybox.airflow.page.bodies import BodyRefusedError, read_body
        from relaybox.airflow.page.callers import Caller
        from relaybox.airflow.page.turns import NoTurnError

        caller = Caller(receive) if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") else None
        try:
            if caller is None and scope["type"] == "http":
                receive = await read_body(receive)
            async with self.turns.turn(None if caller is None else caller.gone()):
                await self.app({**scope, AIRFLOW: scope["app"]}, caller.receive if caller else receive, send)
        except NoTurnError:
            await too_many()(scope, receive, send)
        except BodyRefusedError as refused:
            await refuse_body(refused)(scope, receive, send)
        finally:
            if caller is not None:
                caller.stop()

    @cached_property
    def turns(self) -> Turns:
        """What its requests take."""
        from relaybox.airflow.page.turns import Turns

        return Turns()
