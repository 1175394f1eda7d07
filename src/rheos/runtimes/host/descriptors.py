"""File descriptors of a process: allows as many as its connections need."""

from __future__ import annotations

import resource

from rheos.core.errors import ConfigurationError

_OWN_DESCRIPTORS = 512
"""Number of descriptors for everything except connections to peers: files, state, connectors."""


def allow_connections(count: int) -> None:
    """Let this process open `count` connections, in addition to its other descriptors.

    The soft limit of the process is raised if it is lower. Without descriptors, a process cannot accept
    its peers, and the job would only wait for them.

    Raises:
        ConfigurationError: The hard limit is too low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + _OWN_DESCRIPTORS
    if _is_enough(soft, needed):
        return
    # Only the connections must fit: a process may need fewer descriptors of its own.
    if not _is_enough(hard, count):
        raise ConfigurationError(
            f"a slot needs {count} connections to the other slots, but its process may open only "
            f"{hard} files",
            hint=f"raise the limit of open files on each machine (ulimit -n) to {needed}, or use fewer "
            "slots",
        )
    raised = needed if _is_enough(hard, needed) else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))


def _is_enough(limit: int, needed: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= needed
