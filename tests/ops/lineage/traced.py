"""A program that is rerun from its start with lineage, and the inputs that it reports for its sinks'
rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import rheos as rh
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.state_config import StateConfig
from rheos.ops.forks.input import CheckpointInput
from rheos.ops.forks.tape import Beginning
from rheos.ops.lineage.answer import Answers, ExplainedRow
from rheos.ops.lineage.traced_run import TracedRun

Build = Callable[[rh.Environment], Mapping[str, rh.DataStream]]


def explained(build: Build, folder: Path) -> dict[str, list[ExplainedRow]]:
    """Return all rows of each output, by its name, in order."""
    env = rh.Environment()
    for name, stream in build(env).items():
        stream.sink_to(rh.print_sink(), name=name)
    plan = env.plan("traced")
    tapes = CheckpointInput(None, plan, None)
    beginning = Beginning({}, StateConfig(), str(folder))
    replay = TracedRun(JobId("traced"), plan, tapes.tapes, beginning)
    try:
        replay.run()
    finally:
        replay.close()
    answers = Answers(replay.ledger, replay.watched, None)
    return {
        planned.name: [
            answers.explained(arrival.row)
            for arrival in replay.ledger.arrivals(replay.operators[planned.id])
        ]
        for planned in plan.operators()
        if not planned.outputs
    }


def came_of(rows: list[ExplainedRow], column: str = "id") -> list[tuple[dict[str, Any], list[Any]]]:
    """Return each row with that column of the input rows that led to it, sorted."""
    return [(dict(row.row), sorted(input.row[column] for input in row.inputs)) for row in rows]
