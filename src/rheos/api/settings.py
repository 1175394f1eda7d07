"""Settings of an environment that are more than a word: what they mean, and whether they fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from rheos.checkpoint.config import CheckpointConfig, RestartStrategy
from rheos.errors import ConfigurationError
from rheos.protocol.durations import Duration, duration_ms
from rheos.protocol.state_config import MIB, Backend, StateConfig
from rheos.task.config import Guarantee, TaskConfig

StateChoice: TypeAlias = StateConfig | Literal["memory", "rocksdb"]

_LEAST_STATE_BYTES = MIB


@dataclass(frozen=True)
class Checkpoints:
    """How checkpoints are taken, beyond how often: `rh.Environment(checkpoints=rh.Checkpoints(...))`.

    Args:
        max_concurrent: how many may be under way at a time. More than one keeps the interval where a
            checkpoint takes longer than that.
        unaligned_after: how long a barrier may wait behind rows before it overtakes them, and they are
            stored with the checkpoint: "0s" at once, None never. It keeps checkpoints quick under
            back-pressure, and makes them larger.
        at_least_once: no input waits for barriers, and a row may count twice in state after a failure.
        retain: how many completed checkpoints are kept.
        min_pause: the least time from the end of one to the beginning of the next; only where they are
            taken one at a time.
        tolerable_failures: how many in a row may fail before the job restarts.
    """

    max_concurrent: int = 1
    unaligned_after: Duration | None = None
    at_least_once: bool = False
    retain: int = 2
    min_pause: Duration = "0s"
    tolerable_failures: int = 3


def checkpoint_config(
    said: Checkpoints,
    interval: Duration | None,
    timeout: Duration,
    restart: RestartStrategy,
) -> CheckpointConfig:
    """Raises ConfigurationError where a setting is wrong, or two do not go together."""
    if said.unaligned_after is not None and said.at_least_once:
        raise ConfigurationError(
            "checkpoints that are at least once have no barriers that could overtake rows",
            hint="leave out unaligned_after, or at_least_once",
        )
    min_pause_ms = _ms("min_pause", said.min_pause)
    max_concurrent = positive("max_concurrent", said.max_concurrent)
    if min_pause_ms and max_concurrent > 1:
        raise ConfigurationError(
            f"{max_concurrent} checkpoints at a time leave no pause between one and the next",
            hint="leave out max_concurrent, or min_pause",
        )
    return CheckpointConfig(
        interval_ms=None if interval is None else positive_ms("checkpoint_interval", interval),
        timeout_ms=positive_ms("checkpoint_timeout", timeout),
        min_pause_ms=min_pause_ms,
        retain=positive("retain", said.retain),
        tolerable_failures=_whole("tolerable_failures", said.tolerable_failures, at_least=0),
        max_concurrent=max_concurrent,
        restart=restart,
    )


def task_config(
    said: Checkpoints, batch_rows: int, buffer_timeout_us: int | None, credits: int
) -> TaskConfig:
    """`said` was looked through by `checkpoint_config`."""
    after = said.unaligned_after
    return TaskConfig(
        batch_rows=positive("batch_rows", batch_rows),
        buffer_timeout_us=buffer_timeout_us,
        credits=positive("credits", credits),
        guarantee=Guarantee.AT_LEAST_ONCE if said.at_least_once else Guarantee.EXACTLY_ONCE,
        unaligned_after_us=None if after is None else _ms("unaligned_after", after) * 1000,
    )


def state_config(
    said: StateChoice, backend: str | None = None, memory_bytes: int | None = None
) -> StateConfig:
    """What the program said, with a command's words over it. Raises ConfigurationError."""
    config = said if isinstance(said, StateConfig) else StateConfig(_backend(said))
    if backend is not None:
        config = replace(config, backend=_backend(backend))
    if memory_bytes is not None:
        config = replace(config, memory_bytes=memory_bytes)
    # A word will do for a backend within a StateConfig, too.
    config = replace(config, backend=_backend(config.backend))
    _whole("the memory of the state", config.memory_bytes, at_least=_LEAST_STATE_BYTES)
    return config


def _backend(value: Any) -> Backend:
    try:
        return Backend(value)
    except ValueError:
        raise ConfigurationError(
            f"there is no state backend {value!r}",
            hint='write state="memory" or state="rocksdb", or '
            "state=rh.StateConfig(rh.StateBackend.ROCKSDB, memory_bytes=1 << 30)",
        ) from None


def positive(name: str, value: Any) -> int:
    return _whole(name, value, at_least=1)


def positive_ms(name: str, value: Duration) -> int:
    ms = duration_ms(value)
    if ms <= 0:
        raise ConfigurationError(f"{name} must be more than nothing, not {value!r}")
    return ms


def _whole(name: str, value: Any, *, at_least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise ConfigurationError(f"{name} must be a whole number of at least {at_least}, not {value!r}")
    return value


def _ms(name: str, value: Duration) -> int:
    ms = duration_ms(value)
    if ms < 0:
        raise ConfigurationError(f"{name} must not be less than nothing, and is {value!r}")
    return ms
