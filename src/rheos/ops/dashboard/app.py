"""Requests and answers: the routes of the operations, the event streams and the page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rheos.connectors.listener.threads import in_thread
from rheos.core.errors import ConfigurationError, InternalError, RheosError, TransportError, unexpected
from rheos.core.protocol.error_data import ErrorData
from rheos.ops.dashboard import served_jobs
from rheos.ops.dashboard.access import Access, Audit, Holder, SignInCode
from rheos.ops.dashboard.feeds import Feeds
from rheos.ops.dashboard.openapi import document
from rheos.ops.dashboard.operation_runner import Caller, OperationRunner
from rheos.ops.dashboard.operations import Operation, operations
from rheos.ops.dashboard.replays import BusyError, ReplayProcesses
from rheos.ops.dashboard.served_jobs import NoSuchJobError, NotRunningError, ServedJobs
from rheos.runtimes.operation_contract import REST_BASE, Role

T = TypeVar("T")


class BackgroundWork:
    """An executor of up to a maximum number of calls at a time; further calls wait. The process ends
    without waiting for them, because the job itself finishes what was requested."""

    def __init__(self, at_most: int) -> None:
        self._room = asyncio.Semaphore(at_most)

    async def run(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which runs in a separate thread. Raise its error."""
        async with self._room:
            return await in_thread(work)


_MAX_AT_WORK = 16
PAGE = Path(__file__).parent / "page"
_POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class WithHeaders:
    """A middleware that adds security headers for browsers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        await self._app(scope, receive, with_headers)


class DeniedError(Exception):
    """A refusal. Its message only shows whether the token, its role or its names are the reason."""

    def __init__(self, status: int, what: str, hint: str) -> None:
        super().__init__(what)
        self.status = status
        self.hint = hint


def _check_names(request: Request, body: Any, operation: Operation, holder: Holder) -> None:
    """Raise DeniedError if the holder may not read rows from what the request names."""
    kind = operation.rows_of
    if kind is None:
        return
    names = request.query_params.getlist(kind) if body is None else [getattr(body, kind)]
    for name in names:
        if not holder.may_read(kind, name):
            what = f"the token of {holder.name!r} may not read {kind} {name!r}"
            raise DeniedError(
                403, what, f"the table [{holder.name}] of the tokens lists what it may read"
            )


class Dashboard:
    """The application that serves these jobs. `hosts` are the names by which requests may address this
    server. So a foreign web page cannot send requests in the name of its reader."""

    def __init__(
        self,
        jobs: ServedJobs,
        access: Access,
        audit: Audit,
        hosts: Sequence[str],
        feeds: Feeds | None = None,
        savepoint_folders: Sequence[str] = (),
        replay_memory_bytes: int | None = None,
        code: SignInCode | None = None,
    ) -> None:
        """Create the application. `code` can be exchanged for a token. `savepoint_folders` may contain
        savepoints, in addition to checkpoint directories."""
        self._jobs = jobs
        self._access = access
        self._feeds = feeds or Feeds()
        self._code = code
        self._operating = BackgroundWork(_MAX_AT_WORK)
        self._replays = ReplayProcesses(replay_memory_bytes)
        self._runner = OperationRunner(jobs, audit, self._replays, savepoint_folders)
        self._document = document()
        self.app = Starlette(
            routes=[
                Mount(
                    REST_BASE,
                    routes=[
                        Route("/sign-in", self._sign_in, methods=["POST"]),
                        *map(self._route, operations()),
                        *self._event_routes(),
                    ],
                ),
                Route("/openapi.json", self._openapi),
                Route("/healthz", self._healthy),
                Route("/livez", self._live),
                Route("/readyz", self._ready),
                Mount("/", StaticFiles(directory=PAGE, html=True)),
            ],
            middleware=[
                Middleware(WithHeaders),
                Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False),
            ],
            exception_handlers={DeniedError: _denied, Exception: _broken},
        )

    def close(self) -> None:
        """End the replays that are running in other processes."""
        self._replays.close()

    # --- operations -------------------------------------------------------------------------------

    def _route(self, operation: Operation) -> Route:
        async def answer(request: Request) -> Response:
            holder = self._let_in(request, operation.role)
            try:
                body = await _body(request, operation)
                _check_names(request, body, operation, holder)
                work = partial(self._run, operation, request, holder, body)
                aside = operation.takes_long or operation.role is Role.OPERATE
                found = await (self._operating.run(work) if aside else asyncio.to_thread(work))
            except RheosError as error:
                return _refusal(error)
            headers = {"Deprecation": "true"} if operation.deprecated else None
            return Response(found, headers=headers, media_type="application/json")

        return Route(operation.path, answer, methods=[operation.method], name=operation.name)

    def _run(self, operation: Operation, request: Request, holder: Holder, body: Any) -> bytes:
        """Run an operation, in a thread. Raise RheosError if it fails."""
        query = {name: request.query_params.getlist(name) for name in operation.query}
        address = request.client.host if request.client is not None else ""
        caller = Caller(holder.name, address)
        return self._runner.run(operation, request.path_params.get("job"), query, body, caller)

    def _let_in(self, request: Request, needed: Role) -> Holder:
        """Return the token's holder, before reading anything else. Raise DeniedError if it lacks the
        role."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        holder = self._access.holder(token) if scheme.lower() == "bearer" else None
        if holder is None:
            hint = "send a token: Authorization: Bearer TOKEN"
            raise DeniedError(401, "unknown token", hint)
        if not holder.role.may(needed):
            hint = f"send a token with the role {needed.value!r}"
            raise DeniedError(403, f"this operation needs the role {needed.value!r}", hint)
        return holder

    # --- event streams ----------------------------------------------------------------------------

    def _event_routes(self) -> list[Route]:
        return [Route("/events", self._all_jobs), Route("/jobs/{job}/events", self._one_job)]

    async def _all_jobs(self, request: Request) -> Response:
        self._let_in(request, Role.LOOK)
        return self._streamed("", self._jobs.listed)

    async def _one_job(self, request: Request) -> Response:
        self._let_in(request, Role.LOOK)
        named = request.path_params["job"]

        return self._streamed(named, lambda: served_jobs.now(self._jobs.find(named)))

    def _streamed(self, name: str, look: Callable[[], Any]) -> Response:
        def ask() -> bytes:
            try:
                return b"event: now\ndata: " + msgspec.json.encode(look()) + b"\n\n"
            except Exception as error:
                known = error if isinstance(error, RheosError) else unexpected(error)
                shown = ErrorData.of(known)
                return b"event: problem\ndata: " + msgspec.json.encode(shown) + b"\n\n"

        try:
            events = self._feeds.listen(name, ask)
        except ConfigurationError as error:
            return _refusal(error, 503)
        return StreamingResponse(events, media_type="text/event-stream")

    # --- without a token --------------------------------------------------------------------------

    async def _sign_in(self, request: Request) -> Response:
        """Exchange the code of a printed address for the token."""
        scheme, _, code = request.headers.get("authorization", "").partition(" ")
        known = self._code if scheme.lower() == "code" else None
        holder = None if known is None else known.exchange(code)
        if holder is None:
            hint = (
                "the code in an address works once, within five minutes; the file that is "
                "printed with it "
            )
            raise DeniedError(401, "unknown or expired code", f"{hint}has the token")
        return JSONResponse({"token": holder.token})

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(self._document)

    async def _healthy(self, request: Request) -> Response:
        return JSONResponse({"healthy": True})

    async def _live(self, request: Request) -> Response:
        return await _probed("live", self._jobs.readiness.live)

    async def _ready(self, request: Request) -> Response:
        return await _probed("ready", self._jobs.readiness.ready)


async def _probed(name: str, look: Callable[[], bool]) -> Response:
    try:
        met = await asyncio.to_thread(look)
    except RheosError:
        met = False  # Only holders of a token can see the reason.
    return JSONResponse({name: met}, 200 if met else 503)


async def _body(request: Request, operation: Operation) -> Any:
    """Return the decoded body. Raise ConfigurationError if the operation does not accept it."""
    if operation.body is None:
        return None
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > operation.max_body_bytes:
            raise ConfigurationError(f"the body is larger than {operation.max_body_bytes} bytes")
    try:
        return msgspec.json.decode(data or b"{}", type=operation.body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ConfigurationError(
            f"the body is not valid for {operation.rows_of or operation.name!r}: {error}",
            hint="see /openapi.json",
        ) from error


def _refusal(error: RheosError, status: int | None = None) -> Response:
    data = msgspec.json.encode(ErrorData.of(error))
    return Response(data, status_code=status or _status(error), media_type="application/json")


def _status(error: RheosError) -> int:
    match error:
        case NoSuchJobError():
            return 404
        case NotRunningError() | BusyError():
            return 409
        case ConfigurationError():
            return 400
        case TransportError():
            return 503
        case InternalError():
            return 500
        case _:
            return 409


async def _denied(request: Request, error: Exception) -> Response:
    assert isinstance(error, DeniedError)
    return _refusal(ConfigurationError(str(error), hint=error.hint), error.status)


async def _broken(request: Request, error: Exception) -> Response:
    return _refusal(unexpected(error), 500)
