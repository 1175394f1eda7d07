"""A server of the page whose every answer is set by a test.

The page, its headers and the feeds are those of the dashboard. Only the jobs are made up
(`fed_jobs`), so that two pictures of the page are equal."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from rheos.connectors.listener.asgi import AsgiService
from rheos.connectors.listener.bounds import Bounds
from rheos.connectors.listener.place import HostNames, listening_socket, shown_address
from rheos.connectors.listener.server import Listener
from rheos.ops.dashboard.app import PAGE, WithHeaders
from rheos.ops.dashboard.feeds import Feeds
from rheos.ops.dashboard.openapi import BASE, document
from tests.ops.dashboard.fed_jobs import FedJob

TOKEN = "the token of the pictures"
_REFUSED = {"what": "unknown token", "hint": "send a token"}


class FedServer:
    """Server of the page over `jobs`, which a test changes while the page is open."""

    def __init__(self) -> None:
        self.jobs: list[FedJob] = []
        self.posted: list[tuple[str, Any]] = []
        """What was posted, by the last part of its path."""
        self.refusal: dict[str, Any] | None = None
        """What is posted is refused with this."""
        self.refused = False
        self.holds = False
        """What is posted has no answer yet."""
        self.turning = False
        """Each look finds other numbers."""
        self._feeds = Feeds(every_s=0.02)
        routes = [
            Route("/api/v1/events", self._feed),
            Route("/api/v1/jobs/{key}/events", self._feed),
            Route("/api/v1/jobs/{key}/{what}", self._answer),
            Route("/api/v1/jobs/{key}/{what}", self._post, methods=["POST"]),
            Route("/openapi.json", lambda request: JSONResponse(_described())),
        ]
        app = Starlette(routes=routes, middleware=[Middleware(WithHeaders)])
        app.mount("/", StaticFiles(directory=PAGE, html=True))
        self._listener = Listener(
            "fed",
            listening_socket("127.0.0.1", 0),
            AsgiService(app, lambda token: token == TOKEN, (), "http"),
            Bounds(64),
            HostNames.of("127.0.0.1"),
        )
        self.url = f"http://{shown_address('127.0.0.1', self._listener.port)}/"

    def close(self) -> None:
        self._listener.close()

    def listed(self) -> list[dict[str, Any]]:
        return [job.listed() for job in self.jobs]

    def turn(self) -> int:
        """Change what the running jobs report. Return their new rate."""
        rate = 0
        for job in self.jobs:
            rate = round(job.status.records_per_s) + 1
            job.status = replace(job.status, records_per_s=float(rate))
            job.behind += 1
            job.metrics = msgspec.structs.replace(
                job.metrics,
                readings=[
                    each if each.per_s is None else msgspec.structs.replace(each, per_s=each.per_s + 1)
                    for each in job.metrics.readings
                ],
            )
        return rate

    def _job(self, key: str) -> FedJob | None:
        return next((job for job in self.jobs if job.key == key), None)

    def _look(self, key: str) -> bytes:
        if self.turning:
            self.turn()
        if key and self._job(key) is None:
            said: Any = {"what": f"unknown job {key!r}", "hint": "see the list of jobs"}
            return b"event: problem\ndata: " + msgspec.json.encode(said) + b"\n\n"
        job = self._job(key)
        shown = self.listed() if job is None else job.now()
        return b"event: now\ndata: " + msgspec.json.encode(shown) + b"\n\n"

    async def _feed(self, request: Request) -> Response:
        if not _let_in(request):
            return JSONResponse(_REFUSED, 401)
        key = str(request.path_params.get("key", ""))
        events = self._feeds.listen(key, lambda: self._look(key))
        return StreamingResponse(events, media_type="text/event-stream")

    def _json(self, request: Request, shown: Any) -> Response:
        if not _let_in(request):
            return JSONResponse(_REFUSED, 401)
        return Response(msgspec.json.encode(shown), media_type="application/json")

    async def _answer(self, request: Request) -> Response:
        job = self._job(str(request.path_params["key"]))
        if job is None:
            return JSONResponse({"what": "there is no such job"}, 404)
        shown = job.answer(request.path_params["what"])
        if shown is None:
            said = f"the job {job.name!r} does not run: only a running job has this"
            return JSONResponse({"what": said}, 409)
        return self._json(request, shown)

    async def _post(self, request: Request) -> Response:
        while self.holds:
            await asyncio.sleep(0.01)
        self.posted.append((request.path_params["what"], await request.json()))
        if self.refusal is not None:
            self.refused = True
            return JSONResponse(self.refusal, 409)
        match request.path_params["what"]:
            case "savepoint" | "stop":
                return self._json(request, {"directory": "/data/shop/savepoint-1"})
            case "profile":
                stacks = {"step (engine.py:1);count (shop.py:7)": 3, "step (engine.py:1)": 1}
                return self._json(request, {"stacks": stacks})
            case _:
                return self._json(request, {"done": True})


def _described() -> dict[str, Any]:
    """Return a few operations: with the whole table, each new operation would change a picture."""
    found = document()
    shown = ("/jobs", "/jobs/{job}/history", "/jobs/{job}/stop", "/jobs/{job}/cancel")
    return {**found, "paths": {f"{BASE}{path}": found["paths"][f"{BASE}{path}"] for path in shown}}


def _let_in(request: Request) -> bool:
    return request.headers.get("authorization") == f"Bearer {TOKEN}"


@contextlib.contextmanager
def fed_server() -> Iterator[FedServer]:
    server = FedServer()
    try:
        yield server
    finally:
        server.close()
