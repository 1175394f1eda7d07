"""`rheos migrate`: writes the savepoint with which a job continues one of another system."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from rheos.api.overrides import Overrides
from rheos.api.program_file import captured_program
from rheos.cli.terminal import FAILED, report, say
from rheos.connectors.kafka.bounds import named
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import JobId
from rheos.core.site import done_for
from rheos.ops.migration.consumer_group import MovedSource, import_group
from rheos.runtimes.job import JobConfig

_GROUP = "group:"


class _Import(Protocol):
    def write(self, path: str) -> str: ...


def migrate(
    origin: str, file: Path, arguments: Sequence[str], to: str | None, settings: Overrides
) -> int:
    """Explain what the job takes over, and write the savepoint if `to` names a folder. Return the exit
    code: 1 if a part of the checkpoint cannot be moved."""
    try:
        captured = captured_program(file, arguments, settings)
        with done_for(captured.site):
            plan = captured.environment.plan(captured.job_name)
        found: _Import
        if origin.startswith(_GROUP):
            found = _explained_group(origin.removeprefix(_GROUP), plan)
            can_write = True
        else:
            found, can_write = _explained_query(origin, plan)
        if not can_write:
            say("nothing is written, because a part of the checkpoint cannot be moved", error=True)
            return FAILED
        if to is not None:
            written = found.write(to)
            say(f"the savepoint is in {written}")
            command = shlex.join([str(file), *arguments, "--from-savepoint", written])
            say(f"start the job with: rheos run {command}")
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    return 0


def _explained_group(group: str, plan: PhysicalPlan) -> _Import:
    found = import_group(plan, group)
    for source in found.sources:
        for line in _lines_of(source):
            say(line)
    return found


def _lines_of(source: MovedSource) -> Iterator[str]:
    """Yield what a source continues from, as lines."""
    yield f"source {source.name} ({source.operator})"
    for partition, offset in sorted(source.offsets.items()):
        yield f"  {named(partition)} continues at offset {offset}"
    for split in source.from_first:
        yield f"  {split} has no committed offset: it begins with its first record"


def _explained_query(path: str, plan: PhysicalPlan) -> tuple[_Import, bool]:
    """Return the import of a checkpoint, and whether all of its parts can be moved."""
    from rheos.ops.migration.query_import import explained, import_query
    from rheos.runtimes.spark.session import get_session

    session = get_session(JobConfig(job=JobId("migrate")), slots=max(plan.parallelism, 1))
    found = import_query(session, path, plan)
    for line in explained(found):
        say(line)
    return found, not found.refused
