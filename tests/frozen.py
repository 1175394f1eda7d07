"""Servers and file systems that never answer, and short limits for calls to them."""

from __future__ import annotations

import importlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.spec import AbstractFileSystem

from rheos.connectors.calls import file_systems
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.mysql import server_login
from rheos.connectors.postgres import retrying, watched_session
from rheos.core.connectors import backoff

SRC = Path(__file__).parent.parent / "src" / "rheos"
LIMIT_S = 0.2
_ENDED_WITHIN_S = 60.0
"""Bound that only ends a test that has failed."""


def declared_calls() -> dict[str, OutsideCall]:
    """Return all declared calls, by module and name."""
    found: dict[str, OutsideCall] = {}
    for path in sorted(SRC.rglob("*.py")):
        if "OutsideCall(" in path.read_text() and path.name != "connectors/calls/outside_calls.py":
            parts = path.relative_to(SRC.parent).with_suffix("").parts
            module = importlib.import_module(".".join(parts))
            declared = ((k, v) for k, v in vars(module).items() if isinstance(v, OutsideCall))
            found |= {f"{module.__name__}.{name}": call for name, call in declared}
    return found


def shorten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make all limits short, and make no call twice."""
    for call in declared_calls().values():
        monkeypatch.setitem(vars(call), "limit_s", min(call.limit_s, LIMIT_S))
    monkeypatch.setattr(file_systems, "_ALIVE_S", LIMIT_S / 2)
    monkeypatch.setattr(watched_session, "_ALIVE_S", LIMIT_S / 4)
    monkeypatch.setattr(server_login, "_ALIVE_S", LIMIT_S / 4)
    monkeypatch.setattr(retrying, "_PAUSES_S", (None,))
    monkeypatch.setattr(backoff, "_FIRST_WAIT_US", 0)


@contextmanager
def frozen_server() -> Iterator[int]:
    """Listen on a port of 127.0.0.1. The system accepts connections, and nobody answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(256)
        yield listener.getsockname()[1]


class FrozenFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """A file system whose calls do not return until `let_go` is set."""

    protocol = "frozen"
    cachable = False
    let_go = threading.Event()

    def _wait(self, *args: Any, **options: Any) -> Any:
        assert self.let_go.wait(_ENDED_WITHIN_S)
        raise OSError("the file system was let go")

    ls = info = exists = isfile = isdir = find = glob = makedirs = mkdir = rmdir = _wait
    pipe_file = cat_file = rm_file = mv = size = open = _wait


fsspec.register_implementation("frozen", FrozenFileSystem, clobber=True)


def outcome(work: Callable[[], object]) -> BaseException | None:
    """Return what the work raises, which runs in another thread and must end; None if it returns."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_ENDED_WITHIN_S)
    assert not thread.is_alive(), "the call has not returned"
    return raised[0] if raised else None
