"""Errors of the operating system that mean that a target is temporarily unavailable.

Examples are an unreachable server, a broken network connection, or a full disk. Such a call is retried
until it succeeds.
"""

from __future__ import annotations

import errno
import socket

from rheos.core.errors import CheckpointError, RheosError, UnavailableError
from rheos.core.safe_strings import formatted_traceback

_PASSING = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.EDQUOT,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EIO,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.ENOSPC,
        errno.ENOTCONN,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)


def is_outage(error: BaseException) -> bool:
    """Return whether the error may go away without a change of the program or its target.

    >>> is_outage(ConnectionRefusedError()), is_outage(PermissionError())
    (True, False)
    """
    if isinstance(error, ConnectionError | TimeoutError | socket.gaierror):
        return True
    return isinstance(error, OSError) and error.errno in _PASSING


def unpublished(error: Exception, staged_by: str) -> RheosError:
    """Convert an error of a committer to a RheosError; to `UnavailableError` if the error may go away
    by itself.

    Args:
        error: exception that the committer raised.
        staged_by: origin of the staged output, for people: "a checkpoint".
    """
    kind: type[RheosError] = CheckpointError
    hint = "the restart strategy tries again; check the sink's target"
    if is_outage(error):
        kind, hint = UnavailableError, "the sink retries until it can publish; check its target"
    return kind(
        f"the sink could not publish the output that {staged_by} staged: {error}",
        hint=hint,
        detail=formatted_traceback(error),
    )
