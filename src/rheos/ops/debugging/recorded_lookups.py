"""Answers of lookups, which a test of an incident has instead of the outside systems.

While the test is written, each key is requested once, and the answer is recorded. The test passes the
answers that its rows need, and requests nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from rheos.core.connectors.lookup import Found, Lookup, LookupClient, LookupContext
from rheos.core.errors import ConfigurationError, ProgramError, RheosError
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.shown_rows import rows_values
from rheos.core.safe_strings import named_error, shown


@dataclass(frozen=True)
class LookupAnswer:
    """The answer for one key."""

    key: Batch
    """One row with the key's columns."""
    rows: Batch
    """Rows that were found, which may be none."""


class UsedAnswers(NamedTuple):
    """The answers that a run has used of one operator."""

    planned: PlannedOperator
    answers: Sequence[LookupAnswer]


class RecordedLookups:
    """The answers of all lookups of a path, by operator. A path shares one with its copies."""

    def __init__(self, answers: Mapping[OperatorId, Sequence[LookupAnswer]] | None = None) -> None:
        """Create the record.

        Args:
            answers: Answers of a test, which requests no others; None to request and record them.
        """
        self._requests = answers is None
        self._answers = {
            operator: {_identity(answer.key): answer for answer in of}
            for operator, of in (answers or {}).items()
        }
        self._used: dict[OperatorId, tuple[PlannedOperator, dict[str, LookupAnswer]]] = {}
        self._failure: ConfigurationError | None = None

    def begin_run(self) -> None:
        """Forget which answers were used. Called before each run of the path."""
        self._used = {}
        self._failure = None

    def check_run(self) -> None:
        """Raise ConfigurationError if an outside system failed in this run."""
        if self._failure is not None:
            raise self._failure

    def used(self) -> Sequence[UsedAnswers]:
        """Return the answers that the last run has used, in the order of their first use."""
        return [UsedAnswers(planned, list(of.values())) for planned, of in self._used.values()]

    def lookup_of(self, planned: PlannedOperator) -> Lookup:
        """Return a lookup for an operator, which requests from its own only what is not recorded."""
        assert planned.spec.looks_up is not None
        return _RecordedLookup(self, planned, planned.spec.looks_up)

    def find(
        self, planned: PlannedOperator, keys: Batch, request: Callable[[Batch], Found]
    ) -> list[LookupAnswer]:
        """Return the answer for each key, and record those that were not.

        Args:
            planned: The operator.
            keys: The keys.
            request: Function that requests the rows of some keys from the outside system.

        Raises:
            ConfigurationError: The outside system failed.
            ProgramError: A test has no answer for a key.
        """
        known = self._answers.setdefault(planned.id, {})
        wanted = [keys.slice(at, 1) for at in range(keys.num_rows)]
        names = [_identity(key) for key in wanted]
        missing = [at for at, name in enumerate(names) if name not in known]
        if missing and not self._requests:
            [key] = rows_values(wanted[missing[0]])
            raise ProgramError(
                f"the test has no answer of this lookup for {shown(key)}",
                site=planned.site,
                operator=planned.name,
                hint="add it to `lookups=`, or write the test again: rheos why JOB ... --as-test FILE",
            )
        if missing:
            found = self._requested(planned, keys.take(pa.array(missing)), request)
            of = np.asarray(found.of)
            for number, at in enumerate(missing):
                rows = found.rows.take(pa.array(np.flatnonzero(of == number)))
                known[names[at]] = LookupAnswer(wanted[at], rows)
        answers = [known[name] for name in names]
        _, used = self._used.setdefault(planned.id, (planned, {}))
        used.update(zip(names, answers, strict=True))
        return answers

    def _requested(
        self, planned: PlannedOperator, keys: Batch, request: Callable[[Batch], Found]
    ) -> Found:
        try:
            return request(keys)
        except Exception as error:
            reason = error.what if isinstance(error, RheosError) else named_error(error)
            # The run treats an error as a result of the program, so `check_run` raises it again.
            self._failure = ConfigurationError(
                f"the outside system of this lookup does not answer: {reason}",
                site=planned.site,
                operator=planned.name,
                hint="the test needs its answers: check that the system is up, and repeat the command",
            )
            raise self._failure from error


class _RecordedLookup(Lookup):
    def __init__(self, record: RecordedLookups, planned: PlannedOperator, real: Lookup) -> None:
        self.record, self.planned, self.real = record, planned, real
        self.keys, self.schema = real.keys, real.schema

    def open(self, ctx: LookupContext) -> LookupClient:
        return _RecordedClient(self, ctx)

    def describe(self) -> str:
        return self.real.describe()


class _RecordedClient(LookupClient):
    """A client that opens the one of the outside system for the first request."""

    def __init__(self, lookup: _RecordedLookup, ctx: LookupContext) -> None:
        self._lookup, self._ctx = lookup, ctx
        self._real: LookupClient | None = None

    def fetch(self, keys: Batch) -> Found:
        lookup = self._lookup
        answers = lookup.record.find(lookup.planned, keys, self._request)
        rows = pa.concat_batches([each.rows for each in answers])
        of = np.repeat(np.arange(len(answers)), [each.rows.num_rows for each in answers])
        return Found(rows, pa.array(of, pa.int32()))

    def _request(self, keys: Batch) -> Found:
        if self._real is None:
            self._real = self._lookup.real.open(self._ctx)
        return self._real.fetch(keys)

    def close(self) -> None:
        if self._real is not None:
            self._real.close()


def _identity(key: Batch) -> str:
    """Return a name for a key. NaN equals NaN."""
    return repr(rows_values(key)[0])
