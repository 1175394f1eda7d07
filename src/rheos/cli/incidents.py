"""`rheos debug --as-test` and `rheos reproduce`: tests of incidents."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from rheos.cli.debug import checkpoint_number
from rheos.cli.terminal import report, say
from rheos.cli.why import row_fields
from rheos.cli.why_not import key_columns
from rheos.core.errors import ConfigurationError
from rheos.ops.debugging.debugging import debug
from rheos.ops.debugging.failed_job import failed_job
from rheos.testing.incident_file import IncidentTest, incident_test


def write_incident(
    job: str,
    *,
    key: Any,
    operator: str | None,
    from_: str,
    until: str | None,
    against: Path | None,
    checkpoint_dir: str | None,
    file: Path,
    result: str | None,
    pseudonyms: bool,
    keep: Collection[str],
) -> int:
    """Write the test of an incident; return the exit code."""
    try:
        _check_new(file)
        wanted = None if result is None else row_fields(result)
        debugged = debug(
            job,
            key_columns(key) if isinstance(key, str) else key,
            operator=operator,
            from_checkpoint=checkpoint_number(from_, "--from"),
            until=None if until is None else checkpoint_number(until, "--until"),
            against=against,
            checkpoint_dir=checkpoint_dir,
        )
        test = incident_test(debugged, file, result=wanted, pseudonyms=pseudonyms, keep=keep)
        _write(test, file)
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    return 0


def write_reproduction(
    job: str,
    *,
    from_: str,
    against: Path | None,
    checkpoint_dir: str | None,
    file: Path,
    pseudonyms: bool,
    keep: Collection[str],
) -> int:
    """Write the test of the error that ended a job; return the exit code."""
    try:
        _check_new(file)
        failed = failed_job(job)
        debugged = debug(
            failed.job.job,
            failed.key,
            operator=failed.operator,
            from_checkpoint=checkpoint_number(from_, "--from"),
            against=against,
            checkpoint_dir=checkpoint_dir or failed.job.checkpoint_dir,
        )
        test = incident_test(debugged, file, must_fail=True, pseudonyms=pseudonyms, keep=keep)
        _write(test, file)
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    return 0


def _check_new(file: Path) -> None:
    if file.exists():
        raise ConfigurationError(
            f"{file} exists", hint="name a file that does not exist yet: --as-test"
        )


def _write(test: IncidentTest, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("x") as out:
        out.write(test.text)
    say(test.symptom)
    few = "are needed" if test.is_smallest else "are left; the search for fewer was ended"
    say(f"{test.rows:,} of {test.rows_before:,} rows {few}")
    say(f"wrote {file}: pytest {file} fails until the program is mended")
