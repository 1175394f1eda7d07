"""From settings to what a runtime takes: every setting is looked at here, and nowhere else."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, get_args
from urllib.parse import SplitResult, urlsplit

from rheos.api.partial_settings import Merged
from rheos.api.settings import AlertFrom, LogLevel, RuntimeName, Settings
from rheos.api.shown_settings import shown_settings
from rheos.api.widths import read_width
from rheos.connectors.files.listing import absolute
from rheos.core.checkpoint.config import CheckpointConfig, ExponentialDelay, RestartStrategy
from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.metrics.health import HealthState
from rheos.core.metrics.history import HistoryConfig
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.state_config import MIB, NewAggregates, StateConfig
from rheos.core.task.config import Guarantee, TaskConfig
from rheos.runtimes.job import AlertConfig, JobConfig, ScalingBounds
from rheos.runtimes.job_handle import Runtime

_DEFAULT_PARALLELISM = 4
_LEAST_STATE_BYTES = MIB


@dataclass(frozen=True)
class Resolved:
    """Settings that were looked at."""

    parallelism: int
    max_parallelism: int
    runtime: RuntimeName | Runtime
    config: JobConfig
    """Configuration of a job without a name."""

    def of_job(self, job: JobId) -> JobConfig:
        return replace(self.config, job=job)


def resolve(merged: Merged) -> Resolved:
    """Raises ConfigurationError or ProgramError where a setting is wrong, or two do not go together;
    it begins with the place where that was given."""
    said = merged.settings
    with merged.checking("parallelism", "max_parallelism"):
        wanted = _default_parallelism() if said.parallelism is None else said.parallelism
        parallelism, scaling = read_width(wanted, said.max_parallelism)
    with merged.checking("runtime"):
        runtime = _runtime(said.runtime)
    config = JobConfig(
        job=JobId(""),
        checkpoint=_checkpoint(merged),
        task=_task(merged),
        checkpoint_dir=_folder(merged, "checkpoint_dir"),
        master=_text(merged, "master"),
        spark=said.spark,
        encrypt=None if said.encrypt is None else _flag(merged, "encrypt"),
        heartbeat_timeout_ms=_positive_ms(merged, "heartbeat_timeout"),
        state=_state(merged),
        from_savepoint=_folder(merged, "from_savepoint"),
        allow_dropped=_flag(merged, "allow_dropped"),
        renamed=_renamed(merged),
        scaling=scaling,
        min_parallelism=_min_parallelism(merged, parallelism, scaling),
        history=_history(merged),
        log_level=_log_level(merged),
        settings=shown_settings(said, parallelism),
        alerts=_alerts(merged),
    )
    return Resolved(parallelism, said.max_parallelism, runtime, config)


def _default_parallelism() -> int:
    return min(os.cpu_count() or 1, _DEFAULT_PARALLELISM)


def _runtime(value: Any) -> RuntimeName | Runtime:
    names = get_args(RuntimeName)
    if value in names or hasattr(value, "submit"):
        chosen: RuntimeName | Runtime = value
        return chosen
    raise ConfigurationError(
        f"there is no runtime {value!r}", hint='write "auto", "continuous", "batch" or "simulated"'
    )


def _checkpoint(merged: Merged) -> CheckpointConfig:
    said = merged.settings.checkpoints
    max_concurrent = _whole(merged, "checkpoints.max_concurrent")
    min_pause_ms = _ms(merged, "checkpoints.min_pause", said.min_pause)
    with merged.checking("checkpoints.unaligned_after"):
        if said.unaligned_after is not None and _flag(merged, "checkpoints.at_least_once"):
            raise ConfigurationError(
                "checkpoints that are at least once have no barriers that could overtake rows",
                hint="leave out unaligned_after, or at_least_once",
            )
    with merged.checking("checkpoints.max_concurrent"):
        if min_pause_ms and max_concurrent > 1:
            raise ConfigurationError(
                f"{max_concurrent} checkpoints at a time leave no pause between one and the next",
                hint="leave out max_concurrent, or min_pause",
            )
    no_interval = merged.settings.checkpoint_interval is None
    return CheckpointConfig(
        interval_ms=None if no_interval else _positive_ms(merged, "checkpoint_interval"),
        timeout_ms=_positive_ms(merged, "checkpoint_timeout"),
        min_pause_ms=min_pause_ms,
        retain=_whole(merged, "checkpoints.retain"),
        tolerable_failures=_whole(merged, "checkpoints.tolerable_failures", at_least=0),
        max_concurrent=max_concurrent,
        restart=_restart(merged),
    )


def _history(merged: Merged) -> HistoryConfig | None:
    if merged.settings.history_interval is None:
        return None
    return HistoryConfig(_positive_ms(merged, "history_interval"))


def _log_level(merged: Merged) -> int | None:
    said = merged.settings.log_level
    if said is None:
        return None
    with merged.checking("log_level"):
        if said not in get_args(LogLevel):
            raise ConfigurationError(
                f"there is no level {said!r} of logging",
                hint='write "debug", "info", "warning" or "error", or None for no log file',
            )
    return logging.getLevelNamesMapping()[said.upper()]


def _alerts(merged: Merged) -> AlertConfig | None:
    url, least = merged.settings.alert_webhook, merged.settings.alert_from
    with merged.checking("alert_from"):
        if least not in get_args(AlertFrom):
            raise ConfigurationError(
                f"there is no state {least!r} to alert from",
                hint='write "degraded", "stuck" or "failing"',
            )
    if url is None:
        return None
    with merged.checking("alert_webhook"):
        at = _web_address(url)
        if at is None or at.scheme not in ("http", "https") or not at.hostname:
            raise ConfigurationError(
                "alert_webhook must be an http or https address",
                hint="write https://host/path, the address that the service receiving the alerts shows",
            )
        if at.username or at.password:
            raise ConfigurationError(
                "alert_webhook must not have a user or a password before the host",
                hint="use an address whose path is the secret, and set it by RHEOS_ALERT_WEBHOOK",
            )
    return AlertConfig(url, HealthState(least))


def _web_address(url: object) -> SplitResult | None:
    try:
        return urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        return None


def _task(merged: Merged) -> TaskConfig:
    after = merged.settings.checkpoints.unaligned_after
    at_least_once = _flag(merged, "checkpoints.at_least_once")
    with merged.checking("buffer_timeout"):
        buffer_timeout_us = _buffer_timeout_us(merged.settings.buffer_timeout)
    latency_us = _latency_us(merged)
    return TaskConfig(
        latency_us=latency_us,
        batch_rows=_whole(merged, "batch_rows"),
        buffer_timeout_us=buffer_timeout_us,
        credits=_whole(merged, "credits"),
        guarantee=Guarantee.AT_LEAST_ONCE if at_least_once else Guarantee.EXACTLY_ONCE,
        unaligned_after_us=(
            None if after is None else _ms(merged, "checkpoints.unaligned_after", after) * 1000
        ),
    )


def _latency_us(merged: Merged) -> int | None:
    said = merged.settings
    if said.latency is None:
        return None
    with merged.checking("buffer_timeout"):
        if said.buffer_timeout != Settings().buffer_timeout:
            raise ConfigurationError(
                f"latency={said.latency!r} chooses the buffer timeout itself, and buffer_timeout="
                f"{said.buffer_timeout!r} is given as well",
                hint="leave out one of them",
            )
    return _positive_ms(merged, "latency") * 1000


def _buffer_timeout_us(value: Duration | int) -> int | None:
    """0 sends at once; -1 (None inside) only full buffers."""
    if value == -1:
        return None
    if value == 0:
        return 0
    if isinstance(value, str | timedelta):
        ms = duration_ms(value)
        if ms >= 0:
            return ms * 1000
    raise ConfigurationError(
        f"buffer_timeout={value!r} is not known",
        hint='write a duration such as "10ms", 0 to send at once, or -1 to send only full batches',
    )


def _restart(merged: Merged) -> RestartStrategy:
    said: Any = merged.settings.restart
    with merged.checking("restart"):
        if said is None:
            return ExponentialDelay()
        if isinstance(said, RestartStrategy):
            return said
        raise ConfigurationError(
            f"restart={said!r} is not known",
            hint='write restart=rh.restart.fixed_delay(3, delay="1s")',
        )


def _state(merged: Merged) -> StateConfig:
    said = merged.settings.state
    assert isinstance(said, StateConfig), "merging makes one of a word"
    with merged.checking("state.backend"):
        config = StateConfig.of(said)
    with merged.checking("state.memory_bytes"):
        _check_whole("the memory of the state", config.memory_bytes, at_least=_LEAST_STATE_BYTES)
    for name in ("rows_per_key", "matches_per_key"):
        with merged.checking(f"state.{name}"):
            _check_whole(name, getattr(config, name), at_least=1)
    return replace(config, new_aggregates=_new_aggregates(merged))


def _new_aggregates(merged: Merged) -> NewAggregates | None:
    value = merged.settings.new_aggregates
    with merged.checking("new_aggregates"):
        try:
            return None if value is None else NewAggregates(value)
        except ValueError:
            raise ConfigurationError(f'new_aggregates is "null" or "since", not {value!r}') from None


def _renamed(merged: Merged) -> dict[str, str]:
    value: Any = merged.settings.renamed
    with merged.checking("renamed"):
        uids = (*value, *value.values()) if isinstance(value, Mapping) else (None,)
        if all(isinstance(uid, str) and uid for uid in uids):
            return dict(value)
        raise ConfigurationError(
            f"renamed must have the new uid of each operator by its old one, not {value!r}",
            hint='write renamed={"old": "new"}',
        )


def _min_parallelism(merged: Merged, parallelism: int, scaling: ScalingBounds | None) -> int | None:
    if merged.settings.min_parallelism is None:
        return None if scaling is None else scaling.least
    least = _whole(merged, "min_parallelism")
    with merged.checking("min_parallelism"):
        if scaling is not None:
            raise ConfigurationError(
                "a job whose parallelism follows its load says there how few subtasks it may have",
                hint=f'write parallelism="auto:{least}..", and leave out min_parallelism',
            )
        if least > parallelism:
            raise ConfigurationError(
                f"min_parallelism {least} is greater than the parallelism, which is {parallelism}",
                hint="it is the parallelism to fall back to when slots are lost: set a lower one",
            )
    return least


def _value(merged: Merged, name: str) -> Any:
    group, _, part = name.partition(".")
    value = getattr(merged.settings, group)
    return getattr(value, part) if part else value


def _whole(merged: Merged, name: str, *, at_least: int = 1) -> int:
    with merged.checking(name):
        return _check_whole(name.rpartition(".")[2], _value(merged, name), at_least=at_least)


def _check_whole(name: str, value: Any, *, at_least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise ConfigurationError(f"{name} must be a whole number of at least {at_least}, not {value!r}")
    return value


def _flag(merged: Merged, name: str) -> bool:
    value = _value(merged, name)
    with merged.checking(name):
        if not isinstance(value, bool):
            raise ConfigurationError(f"{name.rpartition('.')[2]} is true or false, not {value!r}")
    return value


def _text(merged: Merged, name: str) -> str | None:
    value = _value(merged, name)
    with merged.checking(name):
        if value is None or (isinstance(value, str) and value):
            return value
        raise ConfigurationError(f"{name} must be a non-empty string, not {value!r}")


def _folder(merged: Merged, name: str) -> str | None:
    value = _value(merged, name)
    with merged.checking(name):
        if value is None:
            return None
        if isinstance(value, str | os.PathLike) and str(value):
            return absolute(value)
        raise ConfigurationError(f"{name} is a path or a URL, not {value!r}")


def _positive_ms(merged: Merged, name: str) -> int:
    value = _value(merged, name)
    with merged.checking(name):
        ms = _duration_ms(name, value)
        if ms <= 0:
            raise ConfigurationError(f"{name} must be more than nothing, not {value!r}")
    return ms


def _ms(merged: Merged, name: str, value: Duration) -> int:
    last = name.rpartition(".")[2]
    with merged.checking(name):
        ms = _duration_ms(last, value)
        if ms < 0:
            raise ConfigurationError(f"{last} must not be less than nothing, and is {value!r}")
    return ms


def _duration_ms(name: str, value: Duration) -> int:
    try:
        return duration_ms(value)
    except ProgramError as error:
        error.what = f"{name}: {error.what}"
        raise
