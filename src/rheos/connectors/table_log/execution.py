"""Execution of the steps of an append, for a log that a library reads and writes."""

from __future__ import annotations

import time
from typing import Protocol, assert_never

from rheos.connectors.table_log.epoch_append import (
    Append,
    Look,
    PauseBeforeLook,
    Steps,
    TableVersion,
    UncertainAppendError,
)


class TableLog(Protocol):
    """Executor of the actions of `append_steps`."""

    def look(self) -> TableVersion: ...

    def append(self, action: Append) -> None: ...


def take(steps: Steps, log: TableLog) -> int | None:
    """Execute the steps, and return the sink's number before the append; None if nothing was missing.

    Raises:
        RheosError: the errors of `append_steps` and of the log.
    """
    before: int | None = None
    answer: TableVersion | None = None
    failure: UncertainAppendError | None = None
    while True:
        try:
            action = steps.send(answer) if failure is None else steps.throw(failure)
        except StopIteration:
            return before
        answer, failure = None, None
        match action:
            case Look():
                answer = log.look()
            case Append():
                before = action.snapshot.number
                try:
                    log.append(action)
                except UncertainAppendError as error:
                    failure = error
            case PauseBeforeLook():
                time.sleep(action.ms / 1000)
            case _:
                assert_never(action)
