"""`rheos debug --as-test`, `rheos why --as-test` and `rheos reproduce`: tests of incidents."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rheos.cli.debug import checkpoint_number
from rheos.cli.terminal import report, say
from rheos.cli.why import row_fields
from rheos.cli.why_not import key_columns
from rheos.core.errors import ConfigurationError
from rheos.ops.debugging.debugging import debug
from rheos.ops.debugging.failed_job import failed_job
from rheos.ops.lineage.why_query import WhyQuestion
from rheos.testing.incident_file import incident_test
from rheos.testing.missing_row import incident_of_missing_row
from rheos.testing.recorded_incident import RecordedIncident, incident_of_key, incident_of_row


@dataclass(frozen=True)
class IncidentOutput:
    """The file of a test, and what the test contains."""

    file: Path
    expected: str | None = None
    """Right values of the wrong row, as JSON."""
    pseudonyms: bool = False
    keep: Collection[str] = ()
    """Columns without pseudonyms."""

    def write_test(self, record: Callable[[], RecordedIncident]) -> int:
        """Record an incident and write its test; return the exit code."""
        try:
            self._check()
            self._write(record())
        except (Exception, KeyboardInterrupt) as error:
            return report(error)
        return 0

    def _check(self) -> None:
        """Raise ConfigurationError if the test cannot be written, before anything is read."""
        if self.file.exists():
            raise ConfigurationError(
                f"{self.file} exists", hint="name a file that does not exist yet: --as-test"
            )
        if self.expected is not None:
            row_fields(self.expected)

    def _write(self, recorded: RecordedIncident) -> None:
        """Search for the smallest test, and write it. Raise ConfigurationError."""
        test = incident_test(
            recorded,
            self.file,
            expected=None if self.expected is None else row_fields(self.expected),
            pseudonyms=self.pseudonyms,
            keep=self.keep,
        )
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("x") as out:
            out.write(test.text)
        say(test.symptom)
        few = "are needed" if test.is_smallest else "are left; the search for fewer was ended"
        few = "may lead to it" if test.of_missing_row else few
        say(f"{test.rows:,} of {test.rows_before:,} rows {few}")
        say(f"wrote {self.file}: pytest {self.file} fails until the program is mended")


def write_incident(
    job: str,
    *,
    key: Any,
    operator: str | None,
    from_: str,
    until: str | None,
    against: Path | None,
    checkpoint_dir: str | None,
    result: str | None,
    form: IncidentOutput,
) -> int:
    """Write the test of an incident of one key; return the exit code."""

    def record() -> RecordedIncident:
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
        return incident_of_key(debugged, wanted, has_right_row=form.expected is not None)

    return form.write_test(record)


def write_reproduction(
    job: str,
    *,
    from_: str,
    against: Path | None,
    checkpoint_dir: str | None,
    form: IncidentOutput,
) -> int:
    """Write the test of the error that ended a job; return the exit code."""

    def record() -> RecordedIncident:
        failed = failed_job(job)
        debugged = debug(
            failed.job.job,
            failed.key,
            operator=failed.operator,
            from_checkpoint=checkpoint_number(from_, "--from"),
            against=against,
            checkpoint_dir=checkpoint_dir or failed.job.checkpoint_dir,
        )
        return incident_of_key(debugged, must_fail=True)

    return form.write_test(record)


def write_row_test(
    job: str,
    *,
    sink: str,
    row: str | None,
    for_: str | None,
    against: Path | None,
    checkpoint_dir: str | None,
    from_savepoint: str | None,
    from_start: bool,
    form: IncidentOutput,
) -> int:
    """Write the test of a wrong row of a sink, or of a missing one if no row is passed; return the exit
    code."""
    missing = form.expected if row is None else None

    def record() -> RecordedIncident:
        fields = row if row is not None else missing
        assert fields is not None, "the caller passes a row or an expected one"
        question = WhyQuestion(
            job,
            sink,
            row_fields(fields),
            most=1,
            for_=for_,
            against=against,
            checkpoint_dir=checkpoint_dir,
            from_savepoint=from_savepoint,
            from_start=from_start,
        )
        if missing is not None:
            return incident_of_missing_row(question)
        return incident_of_row(question, None if form.expected is None else row_fields(form.expected))

    return (form if missing is None else replace(form, expected=None)).write_test(record)
