"""Configuration of a running job's state: its backend, and its limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from rheos.core.errors import ConfigurationError
from rheos.core.protocol.setting import documented, setting
from rheos.core.protocol.sizes import Size

MIB = 1024 * 1024
_NO_LIMIT = 2**62


class Backend(Enum):
    """Storage of a running job's state. Savepoints do not depend on the backend."""

    MEMORY = "memory"
    """Python objects and arrays: the fastest, as long as the state fits in memory."""

    ROCKSDB = "rocksdb"
    """Files on the worker's local disk, with a cache in memory. State may be far larger than memory."""


class NewAggregates(Enum):
    """Result of a new aggregate for windows that already had rows before the program changed."""

    NULL = "null"
    """Null, as the aggregate's value is unknown for these windows."""

    SINCE = "since"
    """Value over the rows since the change."""


@documented
@dataclass(frozen=True)
class StateConfig:
    """Configuration of state. Example: `rh.Environment(state=rh.StateConfig(rh.StateBackend.ROCKSDB,
    memory_bytes=1 << 30))`. The string "rocksdb" is short for a configuration with all defaults."""

    backend: Backend = setting(
        Backend.MEMORY,
        "State backend: memory, or rocksdb for state that outgrows it.",
        option="--state-backend",
        choices=tuple(backend.value for backend in Backend),
    )
    memory_bytes: Size = setting(
        256 * MIB,
        "Memory that the state of one slot may take before it goes to disk, such as 512MB. It is an "
        "estimate, and shared by the operators of the slot in equal parts. The memory backend keeps to "
        "it for windows alone.",
        option="--state-memory",
    )
    directory: str | None = setting(
        None, "Local folder for state on disk. None means Spark's local folder of the worker."
    )
    rows_per_key: int = setting(
        10_000_000,
        "Largest number of rows, list elements, map entries or different values that one key may keep "
        "in one operator, where neither event time nor a time to live bounds them. More ends the job.",
    )
    matches_per_key: int = setting(
        100_000,
        "Largest number of partial matches of a pattern that one key may have. More ends the job.",
    )
    new_aggregates: NewAggregates | None = setting(
        None, "Set by the setting of the same name. None refuses windows that lack an aggregate."
    )

    @property
    def limits(self) -> StateConfig:
        """Return a configuration with the same limits per key, and defaults for everything else."""
        return StateConfig(rows_per_key=self.rows_per_key, matches_per_key=self.matches_per_key)

    def without_limits(self) -> StateConfig:
        """Return a copy without limits, for a replay: the job has already checked its rows."""
        return replace(self, rows_per_key=_NO_LIMIT, matches_per_key=_NO_LIMIT)

    @staticmethod
    def of(given: object) -> StateConfig:
        """Return the configuration that a setting specifies.

        Args:
            given: A configuration, whose own backend may be a name, or the name of a backend.

        Returns:
            The configuration; for a name, with all defaults.

        Raises:
            ConfigurationError: `given` is neither.
        """
        config = given if isinstance(given, StateConfig) else StateConfig()
        backend: object = config.backend if config is given else given
        try:
            return replace(config, backend=Backend(backend))
        except ValueError:
            raise ConfigurationError(
                f"unknown state backend {backend!r}",
                hint='write state="memory" or state="rocksdb", or '
                "state=rh.StateConfig(rh.StateBackend.ROCKSDB, memory_bytes=1 << 30)",
            ) from None
