"""The job of a fork or a replay: the place of its checkpoints, and the program that it runs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import msgspec

from rheos.api import partial_settings
from rheos.api.overrides import Overrides
from rheos.api.program_file import planned_program
from rheos.connectors.urls import absolute
from rheos.core.checkpoint.checkpoint_copies import CopiedCheckpoint, copied_savepoint
from rheos.core.errors import ConfigurationError
from rheos.core.operators.sink import SinkSpec
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.ports import Store
from rheos.ops.control.job_list import stored_job
from rheos.ops.control.registry import Registry
from rheos.ops.control.running_jobs import find_to_look_at
from rheos.ops.control.started_program import StartedProgram
from rheos.runtimes.host.stores import folder_exists, open_store


@dataclass(frozen=True)
class JobProgram:
    job: JobId
    kept: Store | None
    """Store with its checkpoints; None if their place is unknown."""
    started: StartedProgram

    @property
    def store(self) -> Store:
        """Store with the job's checkpoints. Raise ConfigurationError if the store is unknown."""
        if self.kept is None:
            raise ConfigurationError(
                f"the job {self.job!r} has no checkpoint directory that can be read from here",
                hint="start it with --checkpoint-dir, which also lets the job resume when its "
                "driver is lost",
            )
        return self.kept


def job_program(
    job: str, checkpoint_dir: str | None, against: str | os.PathLike[str] | None
) -> JobProgram:
    """Return the program of a running job on this machine, by its id or name, or of a job in
    `checkpoint_dir`. `against` is the file of its program, if the job does not report it. Raise
    ConfigurationError if the job does not exist, or if its program is unknown."""
    started: StartedProgram | None = None
    store: Store | None
    if checkpoint_dir is None:
        record = find_to_look_at(job)
        started, place = record.program, record.checkpoint_dir
        id, store = record.job, None if place is None else open_store(place, make=False)
    else:
        store, id, _ = stored_job(job, absolute(checkpoint_dir))
        registry = Registry()
        running = (each for each in registry.records() if not each.stands_by)
        known = chain(running, registry.ended_jobs.newest_first())
        started = next((each.program for each in known if each.job == id), None)
    if against is not None:
        started = _stated(Path(against), started)
    elif started is None:
        raise ConfigurationError(
            f"the program of the job {id!r} is unknown",
            hint="pass its file: --against job.py",
        )
    elif not started.as_started:
        raise ConfigurationError(
            f"{started.file} has changed since the job {id!r} was started",
            hint="pass a file with the running program: --against old.py",
        )
    return JobProgram(id, store, started)


def _stated(file: Path, started: StartedProgram | None) -> StartedProgram:
    """Return the program in the file that the user named, started as the job was."""
    if started is None:
        started = StartedProgram(file="", arguments=[], folder=os.getcwd(), parameters={}, digest="")
    return msgspec.structs.replace(started, file=str(file.absolute()))


def savepoint_of(job: JobId, directory: str) -> CopiedCheckpoint:
    """Copy a savepoint of the job into memory. Raise ConfigurationError if it does not exist or belongs
    to another job, CheckpointError if it cannot be read."""
    if not folder_exists(directory):
        raise ConfigurationError(
            f"the savepoint {directory!r} does not exist",
            hint="pass the folder that was printed when the savepoint was taken",
        )
    taken = copied_savepoint(open_store(directory, make=False), directory)
    if taken.savepoint.job != job:
        raise ConfigurationError(
            f"the savepoint {directory!r} belongs to the job {taken.savepoint.job!r}, not to {job!r}",
            hint="pass a savepoint of that job",
        )
    return taken


def planned(program: StartedProgram) -> PhysicalPlan:
    """Return the plan of a program with the settings of its command. Called in its working directory.
    Raise ConfigurationError if the file of settings has changed, and the program's own errors."""
    if not program.has_same_settings_file:
        raise ConfigurationError(
            f"the settings in {program.config} have changed since {program.file} was started with them",
            hint="restore the file, or start the job again with the changed settings first",
        )
    files = () if program.config is None else (partial_settings.from_file(program.config),)
    given = partial_settings.from_command(program.options)
    settings = Overrides(settings=(*files, given), parameters=program.parameters)
    return planned_program(Path(program.file), program.arguments, settings)


def sink_of(plan: PhysicalPlan, sink: str, owner: str) -> PlannedOperator:
    """Return the sink with that id, or the only one with that name. `owner` is the job or program in
    the message. Raise ConfigurationError if the sink does not exist, or if several have the name."""
    sinks = [each for each in plan.operators() if isinstance(each.spec, SinkSpec)]
    fitting = [each for each in sinks if sink == each.id] or [
        each for each in sinks if sink == each.name
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise ConfigurationError(
            f"{owner} has {len(fitting)} sinks {sink!r}",
            hint=f"pass the id of one: {', '.join(each.id for each in fitting)}",
        )
    raise ConfigurationError(
        f"{owner} has no sink {sink!r}",
        hint=f"its sinks are {', '.join(each.name for each in sinks)}",
    )


@contextlib.contextmanager
def working_as(program: StartedProgram) -> Iterator[None]:
    """Work in the program's directory in the block, so that paths mean the same as in the job."""
    if not os.path.isdir(program.folder):
        raise ConfigurationError(
            f"the folder {program.folder!r}, in which the job was started, does not exist",
            hint="run this on the machine where its driver runs",
        )
    with contextlib.chdir(program.folder):
        yield
