"""The job of this user that has failed, and the place of its error: `failed_job`."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from rheos.core.errors import ConfigurationError
from rheos.ops.control.registry import EndedJob, Registry

_OPERATOR = re.compile(r"operator '(?P<name>[^']+)': ")
_KEY = re.compile(r"^  key: (?P<key>.*)$", re.MULTILINE)


@dataclass(frozen=True)
class FailedJob:
    job: EndedJob
    operator: str
    """Name of the operator that failed."""
    key: Any
    """Key that it was processing; None for an operator without keys."""


def failed_job(wanted: str) -> FailedJob:
    """Return the newest failed job with that id, name or key.

    Raises:
        ConfigurationError: No such job has failed on this machine; or its error is not that of an
            operator, or it kept no checkpoint.
    """
    ended = Registry().ended_jobs.newest_first()
    found = next((each for each in ended if wanted in (each.job, each.name, each.key)), None)
    if found is None or found.failure is None:
        failed = sorted({each.job for each in ended if each.failure is not None})
        raise ConfigurationError(
            f"no job {wanted!r} has failed on this machine",
            hint=f"failed jobs are {', '.join(failed)}" if failed else "see `rheos jobs`",
        )
    operator = _OPERATOR.search(found.failure)
    if operator is None:
        raise ConfigurationError(
            f"the job {wanted!r} was not ended by an operator: {found.failure.splitlines()[0]}",
            hint="only errors of operators can be reproduced from rows",
        )
    if found.checkpoint_dir is None:
        raise ConfigurationError(
            f"the job {wanted!r} kept no checkpoint, so its rows cannot be read again",
            hint="start it with --checkpoint-dir",
        )
    key = _KEY.search(found.failure)
    return FailedJob(found, operator["name"], None if key is None else _value(key["key"]))


def _value(text: str) -> Any:
    """Return the value of a printed key: a literal of Python, otherwise the string."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
