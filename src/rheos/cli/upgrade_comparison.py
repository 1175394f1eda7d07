"""`rheos upgrade --compare`: compares the output of both programs before a job is handed over.

The comparison is that of `rheos fork`. It runs in a process under a guard, before anything is prepared
for the handover. If that process is killed or takes too long, the comparison has failed, and the job
continues with its program.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from rheos.cli.fork import print_fork
from rheos.cli.terminal import DIFFERENT, report, say
from rheos.core.checkpoint.upgrade import Upgrade
from rheos.core.errors import ConfigurationError, InternalError, TransportError
from rheos.core.protocol.durations import duration_ms
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.state_config import NewAggregates
from rheos.ops.control.handover import find_job_to_hand_over
from rheos.ops.control.running_jobs import find_running
from rheos.ops.control.started_program import StartedProgram, program_of
from rheos.ops.dashboard.guarded_process import GuardedProcess, default_memory_bytes
from rheos.ops.dashboard.replay_guard import GuardExit, surroundings
from rheos.ops.dashboard.replays import REPLAY_COMMAND, AnsweredReplay, AskedReplay
from rheos.ops.forks.forking import plan_fork
from rheos.ops.forks.job_program import job_program
from rheos.runtimes.job import CommandSettings

_ONLY_UPGRADES = frozenset(("allow_dropped", "new_aggregates", "renamed"))
"""Settings that only concern the restored checkpoint."""
_MAX_ANSWER_BYTES = 1 << 20
_SAMPLES = 10
_TIME_FACTOR = 4
_MORE_SECONDS = 600
"""The process may take 4 times the length of the input, and 10 minutes. It reads the input once, and
runs each program over it up to twice."""


class CompareRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request to the process."""

    file: str
    """Absolute path of the changed program."""
    arguments: list[str]
    parameters: dict[str, str]
    config: str | None
    """Absolute path of the file of settings; None if the command has no such file."""
    options: dict[str, Any]
    """Other settings of the command, by the names of `rh.Settings`."""
    length: str
    """Length of the input in event time, such as "5m"."""
    allowed: list[str]
    """Names of the sinks whose output may differ."""
    against: str | None
    """File of the running program; None if the job reports it."""
    allow_dropped: bool
    new_aggregates: Literal["null", "since"] | None
    renamed: dict[str, str]


class ComparedOutputs(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of the process."""

    rows: int
    """Number of input rows."""
    differing: list[str]
    """Names of the sinks whose output differs."""


Ask = Callable[[str, CompareRequest], ComparedOutputs]


def compare_before_upgrade(job: str, request: CompareRequest, ask: Ask | None = None) -> int:
    """Compare both programs, and print the differences to stderr.

    Args:
        job: the id or name of the running job.
        request: the changed program and the length of the input.
        ask: runs the comparison; by default, in a process under a guard.

    Returns:
        The exit code: 0 if the job may be handed over, 3 if its output would differ, or that of an
        error, which is printed.
    """
    try:
        running, changed = find_job_to_hand_over(job), _changed_program(request)
        say(f"comparing both programs over {request.length} of input", error=True, flush=True)
        for line in _other_settings(running.program, changed):
            say(line, error=True, flush=True)
        compared = (ask or ask_process)(job, request)
        if not compared.rows:
            raise ConfigurationError(
                f"the job {running.job!r} received no row within {request.length}, so the output of "
                "its programs was not compared",
                hint="pass a longer duration to --compare, or leave it out",
            )
        if find_running(job).program != running.program:
            raise ConfigurationError(
                f"the job {running.job!r} was given another program during the comparison",
                hint="compare again with the program that it runs now",
            )
        if _changed_program(request) != changed:
            raise ConfigurationError(
                f"{request.file} has changed during the comparison",
                hint="run the command again, and leave the file unchanged meanwhile",
            )
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    refused = [sink for sink in compared.differing if sink not in request.allowed]
    if refused:
        say(
            f"the output differs in {', '.join(refused)}, so the job {running.job!r} was not handed "
            "over. It continues with its program.\nIf this is intended, pass --allow-differences "
            f"{','.join(compared.differing)}",
            error=True,
        )
        return DIFFERENT
    what = f"differs only in {', '.join(compared.differing)}" if compared.differing else "is the same"
    say(f"the output of {compared.rows:,} rows {what}", error=True, flush=True)
    return 0


def _other_settings(running: StartedProgram | None, changed: StartedProgram | None) -> Iterator[str]:
    """Yield a line for each setting that only one of the commands passes, or passes differently."""
    if running is None or changed is None:
        return
    names = sorted({*running.options, *changed.options} - _ONLY_UPGRADES)
    values = [(name, running.options.get(name), changed.options.get(name)) for name in names]
    for name, old, new in [("config", running.config, changed.config), *values]:
        if old != new:
            shown = ["not set" if each is None else str(each) for each in (old, new)]
            yield f"the setting {name} of the job's command was {shown[0]}, and now is {shown[1]}"


def _changed_program(request: CompareRequest) -> StartedProgram | None:
    settings = CommandSettings(request.config, request.options)
    return program_of(Path(request.file), request.arguments, request.parameters, settings)


def ask_process(job: str, request: CompareRequest) -> ComparedOutputs:
    """Compare both programs in a process under a guard, which writes the differences to stderr.

    Raises:
        TransportError: it took too long.
        ConfigurationError: it took too much memory.
        InternalError: it ended without an answer.
        RheosError: the error that it reports.
    """
    seconds = _TIME_FACTOR * duration_ms(request.length) / 1000 + _MORE_SECONDS
    memory_bytes = default_memory_bytes()
    asked = AskedReplay("compare", job, msgspec.Raw(msgspec.json.encode(request)))
    process = GuardedProcess(REPLAY_COMMAND, seconds, memory_bytes, shows_errors=True)
    try:
        request_bytes = surroundings(None, os.environ) + msgspec.json.encode(asked)
        data = process.ask(request_bytes, _MAX_ANSWER_BYTES)
    finally:
        code = process.wait()
    if code == GuardExit.TOO_LATE:
        raise TransportError(
            f"the comparison took longer than {seconds:g} s",
            hint="pass a shorter duration to --compare",
        )
    if code == GuardExit.TOO_MUCH_MEMORY:
        raise ConfigurationError(
            f"the comparison took more than {memory_bytes >> 20} MiB of memory",
            hint="pass a shorter duration to --compare, or run `rheos fork` on a larger machine",
        )
    try:
        answered = msgspec.json.decode(data, type=AnsweredReplay)
        return msgspec.json.decode(answered.result(), type=ComparedOutputs)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InternalError(
            f"the process of the comparison ended without an answer: {error}",
            hint="the job continues with its program; if the machine has run out of memory, pass a "
            "shorter duration to --compare",
        ) from None


def compared_outputs(job: str, request: CompareRequest) -> dict[str, Any]:
    """Compare both programs in this process, and print the differences. Return `ComparedOutputs`.

    Raises:
        ConfigurationError: a sink that may differ does not exist, or the input cannot be read.
        CheckpointError: the checkpoint does not fit the changed program.
        RheosError: an error of one of the programs.
    """
    found = job_program(job, None, request.against)
    given = _changed_program(request)
    if given is None:
        raise ConfigurationError(
            f"the job file {request.file!r} does not exist",
            hint="pass the Python file that builds the job",
        )
    # Relative paths must mean the same in both programs.
    changed = msgspec.structs.replace(given, folder=found.started.folder)
    aggregates = None if request.new_aggregates is None else NewAggregates(request.new_aggregates)
    renamed = {OperatorId(old): OperatorId(new) for old, new in request.renamed.items()}
    upgrade = Upgrade(request.allow_dropped, aggregates, renamed)
    both = plan_fork(found, changed, for_=request.length, from_savepoint=None, upgrade=upgrade)
    for name in request.allowed:
        if name not in both.sinks:
            raise ConfigurationError(
                f"--allow-differences: neither program has a sink {name!r}",
                hint=f"the sinks are {', '.join(sorted(both.sinks))}",
            )
    result = both.compare()
    rows = sum(result.rows_read.values())
    if rows:
        print_fork(result, _SAMPLES, waited=True)
    differing = [name for name, output in result.outputs.items() if not output.alike]
    return msgspec.structs.asdict(ComparedOutputs(rows=rows, differing=differing))
