"""Runs an operation for a caller who may use it: arguments are checked, and changes are audited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from rheos.core.errors import RheosError, TransportError
from rheos.ops.dashboard.access import Audit
from rheos.ops.dashboard.arguments import check_read, check_value, checked, shown
from rheos.ops.dashboard.operations import Operation, RestRequest
from rheos.ops.dashboard.replays import ReplayProcesses
from rheos.ops.dashboard.served_jobs import Served, ServedJobs, StoredJob
from rheos.runtimes.operation_contract import Role


@dataclass(frozen=True)
class Caller:
    """The caller of an operation, for the audit log."""

    name: str
    address: str


class OperationRunner:
    """Runs operations on these jobs, for any thread. `savepoint_folders` may contain savepoints, in
    addition to checkpoint directories."""

    def __init__(
        self,
        jobs: ServedJobs,
        audit: Audit,
        replays: ReplayProcesses,
        savepoint_folders: Sequence[str] = (),
    ) -> None:
        self._jobs = jobs
        self._audit = audit
        self._replays = replays
        self._savepoint_folders = savepoint_folders

    def run(
        self,
        operation: Operation,
        named: str | None,
        query: Mapping[str, list[str]],
        body: Any,
        caller: Caller,
    ) -> bytes:
        """Run an operation, which the caller's role must allow.

        Args:
            operation: The operation.
            named: Key, id or name of its job; None for operations without a job.
            query: The values of each of its parameters; empty for those that are not given.
            body: Its decoded body.
            caller: The caller.

        Returns:
            The answer, as JSON.

        Raises:
            RheosError: The operation failed, or an argument is not allowed.
        """
        job = None if named is None else self._jobs.find(named)
        asked = RestRequest(self._jobs, job, query, body, self._replays)
        for name, values in query.items():
            check_value(name, values, max_chars=operation.query[name].max_chars)
        if operation.role is not Role.OPERATE:
            if body is not None:
                check_read(body)
            return msgspec.json.encode(operation.run(asked))
        assert job is not None, "operations that change something belong to a job"

        def note(outcome: str) -> None:
            self._note(operation, caller, job, shown(body, query), outcome)

        note("asked for")
        try:
            if not isinstance(job, StoredJob):
                asked = replace(asked, body=checked(body, job, self._savepoint_folders))
            done = operation.run(asked)
        except RheosError as error:
            note(f"{type(error).__name__}: {error.what}")
            raise
        note("done")
        return msgspec.json.encode(done)

    def _note(
        self,
        operation: Operation,
        caller: Caller,
        job: Served,
        arguments: Mapping[str, Any],
        outcome: str,
    ) -> None:
        try:
            self._audit.note(caller.name, caller.address, operation.name, job.job, arguments, outcome)
        except OSError as error:
            raise TransportError(
                f"the audit file could not be written, so the operation was not performed: {error}"
            ) from error
