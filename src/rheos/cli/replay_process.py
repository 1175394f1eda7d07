"""Process in which the dashboard (`dashboard/replays.py`) or an upgrade reruns a job's program.

It reads one request as JSON from its standard input, executes the command in the request, and writes
one response as JSON to its original standard output. Output of the program goes to stderr.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from rheos.cli.debug_text import debugged_object, printed, step_object
from rheos.cli.fork import fork_object
from rheos.cli.terminal import located_error
from rheos.cli.upgrade_comparison import CompareRequest, compared_outputs
from rheos.cli.why import why_object
from rheos.cli.why_not import key_columns, why_not, why_not_object
from rheos.core.errors import ConfigurationError, RheosError, UserFunctionError
from rheos.core.protocol.error_data import ErrorData
from rheos.core.safe_strings import named_error
from rheos.ops.control.registry import Registry, find_job
from rheos.ops.dashboard.arguments import program_file
from rheos.ops.dashboard.replays import (
    MAX_REQUEST_BYTES,
    AnsweredReplay,
    AskedReplay,
    DebugRequest,
    ForkRequest,
    WhyNotRequest,
    WhyRequest,
)
from rheos.ops.debugging.debugging import debug
from rheos.ops.forks.forking import fork
from rheos.ops.lineage.why_query import why


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    asked = msgspec.json.decode(sys.stdin.buffer.read(MAX_REQUEST_BYTES), type=AskedReplay)
    with answers:
        answers.write(msgspec.json.encode(answered(asked)))


def answered(asked: AskedReplay) -> AnsweredReplay:
    try:
        return AnsweredReplay(found=msgspec.Raw(printed(_answer(asked)).encode()))
    except RheosError as error:
        return AnsweredReplay(error=ErrorData.of(error))
    except (Exception, SystemExit) as error:
        raised = UserFunctionError(
            f"the program raised {named_error(error)}",
            detail=located_error(error).detail,
        )
        return AnsweredReplay(error=ErrorData.of(raised))


def _answer(asked: AskedReplay) -> dict[str, Any]:
    match asked.operation:
        case "why":
            return _answer_why(asked.job, msgspec.json.decode(asked.request, type=WhyRequest))
        case "why-not":
            request = msgspec.json.decode(asked.request, type=WhyNotRequest)
            return why_not_object(why_not(asked.job, request.operator, request.key, request.window))
        case "debug":
            return _debug(asked.job, msgspec.json.decode(asked.request, type=DebugRequest))
        case "compare":
            return compared_outputs(asked.job, msgspec.json.decode(asked.request, type=CompareRequest))
        case "fork":
            return _fork(asked.job, msgspec.json.decode(asked.request, type=ForkRequest))
        case _:
            raise AssertionError(f"the dashboard has no replay operation {asked.operation!r}")


def _answer_why(job: str, asked: WhyRequest) -> dict[str, Any]:
    found = why(
        job,
        asked.sink,
        asked.row,
        most=asked.rows,
        for_=asked.for_,
        from_savepoint=asked.from_savepoint,
        from_start=asked.from_start,
    )
    return why_object(found)


def _debug(job: str, asked: DebugRequest) -> dict[str, Any]:
    key = asked.key
    debugged = debug(
        job,
        key_columns(key) if isinstance(key, str) else key,
        operator=asked.operator,
        from_checkpoint=asked.from_,
        until=asked.until,
    )
    steps = [step_object(step) for step in debugged]
    for step in steps:
        # The response has the changes of the state. The whole state at each step would be too large.
        del step["before"], step["after"]
    return debugged_object(debugged, steps)


def _fork(job: str, asked: ForkRequest) -> dict[str, Any]:
    found = fork(
        job,
        forked_program(job, asked),
        for_=asked.for_,
        key=asked.key,
        parameters=asked.parameters,
        from_savepoint=asked.from_savepoint,
        allow_dropped=asked.allow_dropped,
        new_aggregates=asked.new_aggregates,
    )
    return fork_object(found, asked.samples)


def forked_program(job: str, asked: ForkRequest) -> Path:
    """Return the file of the changed program. Raises ConfigurationError."""
    record = find_job(job, Registry().records())
    if asked.file is not None or record.program is None:
        return Path(program_file(asked.file or "", record))
    if not asked.parameters:
        raise ConfigurationError(
            "both sides of the comparison would be the running program",
            hint='pass another "file", or other "parameters"',
        )
    return Path(record.program.file)


if __name__ == "__main__":
    main()
