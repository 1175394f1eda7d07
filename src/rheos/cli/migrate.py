"""`rheos migrate`: writes the savepoint with which a job continues one of another system."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from rheos.api.overrides import Overrides
from rheos.api.program_file import planned_program
from rheos.cli.terminal import report, say
from rheos.connectors.kafka.bounds import named
from rheos.core.errors import ConfigurationError
from rheos.ops.migration.consumer_group import MovedSource, import_group

_GROUP = "group:"


def migrate(
    origin: str, file: Path, arguments: Sequence[str], to: str | None, settings: Overrides
) -> int:
    """Explain what the job takes over, and write the savepoint if `to` names a folder. Return the exit
    code."""
    try:
        if not origin.startswith(_GROUP):
            raise ConfigurationError(
                f"{origin!r} is not an origin that is known",
                hint="write group:NAME of a consumer group",
            )
        plan = planned_program(file, arguments, settings)
        imported = import_group(plan, origin.removeprefix(_GROUP))
        for source in imported.sources:
            for line in _of_source(source):
                say(line)
        if to is not None:
            written = imported.write(to)
            say(f"the savepoint is in {written}")
            command = shlex.join([str(file), *arguments, "--from-savepoint", written])
            say(f"start the job with: rheos run {command}")
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    return 0


def _of_source(source: MovedSource) -> Iterator[str]:
    """Yield what a source continues from, as lines."""
    yield f"source {source.name} ({source.operator})"
    for partition, offset in sorted(source.offsets.items()):
        yield f"  {named(partition)} continues at offset {offset}"
    for split in source.from_first:
        yield f"  {split} has no committed offset: it begins with its first record"
