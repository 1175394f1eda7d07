"""Policy of the expiry of old versions of a table."""

from __future__ import annotations

from dataclasses import dataclass

from rheos.connectors.table_log.maintenance_policy import MaintenancePolicy, check_count
from rheos.core.errors import ProgramError
from rheos.core.protocol.durations import Duration, duration_ms

MOST_DELETED = 10_000
"""Maximum number of data files that one expiry of a Delta table deletes."""
MOST_EXPIRED = 100
"""Maximum number of snapshots that one expiry of an Iceberg table removes."""
_LEAST_MS = 3_600_000


@dataclass(frozen=True, kw_only=True)
class VersionExpiry(MaintenancePolicy):
    """Policy of expiry; see `expiry`."""

    older_than_ms: int
    keep: int


def expiry(*, older_than: Duration = "7d", keep: int = 10, every: int = 100) -> VersionExpiry:
    """Return a policy by which the sink of a table removes old versions, and files that only they have.

    ```python
    orders.sink_to(rh.delta.sink("lake/orders", expire=rh.expiry(older_than="2d")))
    ```

    Args:
        older_than: the age from which a version expires, at least an hour. Jobs and queries must not
            read older versions, and a source of changes must not be down for longer.
        keep: the number of newest versions that stay, whatever their age.
        every: the number of checkpoints between two runs.

    Returns:
        The policy.

    Raises:
        ProgramError: A number or a duration is invalid.
    """
    check_count("keep", keep, 1)
    check_count("every", every, 1)
    older_than_ms = duration_ms(older_than)
    if older_than_ms < _LEAST_MS:
        raise ProgramError(
            f"older_than={older_than!r} is less than an hour, so queries would lose their files",
            hint='write older_than="7d"',
        )
    return VersionExpiry(every=every, older_than_ms=older_than_ms, keep=keep)
