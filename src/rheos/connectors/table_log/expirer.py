"""Expiry of old versions of a table, as a step after a commit that never stops the job."""

from __future__ import annotations

import logging
import time

import pyarrow as pa

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.table_log.expiry_policy import VersionExpiry
from rheos.connectors.table_log.maintenance_counts import EXPIRED_FILES
from rheos.connectors.table_log.upserts import UpsertableLog
from rheos.core.errors import RheosError

LOGGER = logging.getLogger("rheos")


def expire(log: UpsertableLog, table: str, policy: VersionExpiry, progressed: Progressed) -> None:
    """Remove old versions of the table. An error is logged, because the checkpoint's own rows are in
    the table already.

    Args:
        log: the log of the table.
        table: name of the table in metrics and messages.
        policy: the policy.
        progressed: called after each step of bounded size.
    """
    try:
        deleted = log.expire(policy, time.time_ns() // 1_000_000, progressed)
    except (RheosError, OSError, pa.ArrowException) as error:
        LOGGER.warning("old versions of the table %s were not removed: %s", table, error)
        return
    EXPIRED_FILES.add((table,), deleted)
