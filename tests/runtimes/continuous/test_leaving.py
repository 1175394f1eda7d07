"""A slot that leaves an attempt: a replaced slot does not delay the next attempt."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from rheos.core.task.engine import SubtaskEngine
from rheos.runtimes.continuous.worker import _leave
from rheos.runtimes.host.io import ThreadedIo


class Engine:
    def __init__(self, under_way: threading.Event) -> None:
        self._under_way = under_way
        self.closed = threading.Event()

    def close(self) -> None:
        assert self._under_way.is_set(), "an operator may be used by what is under way"
        self.closed.set()


@pytest.mark.parametrize("replaced", [True, False])
def test_only_a_replaced_slot_leaves_during_a_commit(replaced: bool) -> None:
    begun, goes_on, left = threading.Event(), threading.Event(), threading.Event()
    io = ThreadedIo(1, wake=lambda: None)

    def commit() -> None:
        begun.set()
        goes_on.wait()

    io.submit(commit)
    begun.wait()
    engine = Engine(goes_on)
    has_closed: list[bool] = []

    def leave() -> None:
        has_closed.append(_leave(io, cast("SubtaskEngine", engine), replaced))
        left.set()

    threading.Thread(target=leave, daemon=True).start()
    if replaced:
        assert left.wait(60), "it waits for what nobody wants"
        assert not engine.closed.is_set()
    goes_on.set()
    assert left.wait(60)
    assert engine.closed.wait(60), "operators are closed in the end"
    assert has_closed == [not replaced], "the driver hears only of operators that are closed"
