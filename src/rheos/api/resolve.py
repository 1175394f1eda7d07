"""Conversion of settings to the values that a runtime takes. This is the only place that checks
settings."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, get_args
from urllib.parse import SplitResult, urlsplit
from uuid import UUID

from rheos.api.partial_settings import MergedSettings
from rheos.api.settings import SETTINGS, AlertFrom, LogLevel, RuntimeName, Settings
from rheos.api.shown_settings import shown_settings
from rheos.api.widths import read_width
from rheos.connectors.urls import absolute
from rheos.core.checkpoint.config import CheckpointConfig, ExponentialDelay, RestartStrategy
from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.metrics.health import HealthState
from rheos.core.metrics.history import HistoryConfig
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.state_config import MIB, NewAggregates, StateConfig
from rheos.core.task.config import Guarantee, TaskConfig
from rheos.runtimes.job import AlertConfig, JobConfig, LineageConfig, ParentRun, ScalingBounds
from rheos.runtimes.job_handle import Runtime

_DEFAULT_PARALLELISM = 4
_LEAST_STATE_BYTES = MIB


@dataclass(frozen=True)
class ResolvedSettings:
    """Settings after all checks."""

    parallelism: int
    max_parallelism: int
    runtime: RuntimeName | Runtime
    config: JobConfig
    """Configuration of a job without a name."""

    def of_job(self, job: JobId) -> JobConfig:
        return replace(self.config, job=job)


def resolve(merged: MergedSettings) -> ResolvedSettings:
    """Check and convert all settings.

    Raise ConfigurationError or ProgramError, beginning with the place of the setting, if a setting is
    invalid or conflicts with another.
    """
    settings = merged.settings
    with merged.checking("parallelism", "max_parallelism"):
        wanted = _default_parallelism() if settings.parallelism is None else settings.parallelism
        parallelism, scaling = read_width(wanted, settings.max_parallelism)
    with merged.checking("runtime"):
        runtime = _runtime(settings.runtime)
    history_ms = _read(merged, "history_interval")
    config = JobConfig(
        job=JobId(""),
        checkpoint=_checkpoint(merged),
        task=_task(merged),
        checkpoint_dir=_read(merged, "checkpoint_dir"),
        master=_read(merged, "master"),
        spark=settings.spark,
        encrypt=_read(merged, "encrypt"),
        compiled=_read(merged, "compiled"),
        heartbeat_timeout_ms=_read(merged, "heartbeat_timeout"),
        termination_grace_ms=_read(merged, "termination_grace"),
        termination_savepoint=_read(merged, "termination_savepoint"),
        state=_state(merged),
        from_savepoint=_read(merged, "from_savepoint"),
        allow_dropped=_read(merged, "allow_dropped"),
        renamed=_renamed(merged),
        scaling=scaling,
        min_parallelism=_min_parallelism(merged, parallelism, scaling),
        history=history_ms and HistoryConfig(history_ms),
        log_level=_log_level(merged),
        settings=tuple(shown_settings(settings, parallelism)),
        alerts=_alerts(merged),
        lineage=_lineage(merged),
    )
    for name in SETTINGS:
        _read(merged, name)
    return ResolvedSettings(parallelism, settings.max_parallelism, runtime, config)


def _default_parallelism() -> int:
    return min(os.cpu_count() or 1, _DEFAULT_PARALLELISM)


def _runtime(value: Any) -> RuntimeName | Runtime:
    names = get_args(RuntimeName)
    if value in names or hasattr(value, "submit"):
        chosen: RuntimeName | Runtime = value
        return chosen
    raise ConfigurationError(
        f"unknown runtime {value!r}", hint='write "auto", "continuous", "batch" or "simulated"'
    )


def _checkpoint(merged: MergedSettings) -> CheckpointConfig:
    max_concurrent = _read(merged, "checkpoints.max_concurrent")
    min_pause_ms = _read(merged, "checkpoints.min_pause")
    with merged.checking("checkpoints.unaligned_after"):
        unaligned = merged.value("checkpoints.unaligned_after") is not None
        if unaligned and _read(merged, "checkpoints.at_least_once"):
            raise ConfigurationError(
                "at-least-once checkpoints have no aligned barriers, so unaligned_after has no effect",
                hint="leave out unaligned_after or at_least_once",
            )
    with merged.checking("checkpoints.max_concurrent"):
        if min_pause_ms and max_concurrent > 1:
            raise ConfigurationError(
                f"with {max_concurrent} concurrent checkpoints there is no pause between two "
                "checkpoints",
                hint="leave out max_concurrent or min_pause",
            )
    return CheckpointConfig(
        interval_ms=_read(merged, "checkpoint_interval"),
        timeout_ms=_read(merged, "checkpoint_timeout"),
        min_pause_ms=min_pause_ms,
        retain=_read(merged, "checkpoints.retain"),
        tolerable_failures=_read(merged, "checkpoints.tolerable_failures"),
        max_concurrent=max_concurrent,
        restart=_restart(merged),
        restore_ahead=_read(merged, "restore_ahead"),
    )


def _log_level(merged: MergedSettings) -> int | None:
    level = merged.settings.log_level
    if level is None:
        return None
    with merged.checking("log_level"):
        if level not in get_args(LogLevel):
            raise ConfigurationError(
                f"unknown log level {level!r}",
                hint='write "debug", "info", "warning" or "error", or None for no log file',
            )
    return logging.getLevelNamesMapping()[level.upper()]


def _alerts(merged: MergedSettings) -> AlertConfig | None:
    url, least = merged.settings.alert_webhook, merged.settings.alert_from
    with merged.checking("alert_from"):
        if least not in get_args(AlertFrom):
            raise ConfigurationError(
                f"unknown health state {least!r} for alerts",
                hint='write "degraded", "stuck" or "failing"',
            )
    if url is None:
        return None
    with merged.checking("alert_webhook"):
        at = _web_address(url)
        if at is None or at.scheme not in ("http", "https") or not at.hostname:
            raise ConfigurationError(
                "alert_webhook must be an http or https address",
                hint="write https://host/path, the address that the receiving service shows",
            )
        if at.username or at.password:
            raise ConfigurationError(
                "alert_webhook must not contain a user or a password",
                hint="use an address whose path is the secret, and set it through the environment "
                "variable RHEOS_ALERT_WEBHOOK",
            )
    return AlertConfig(url, HealthState(least))


def _lineage(merged: MergedSettings) -> LineageConfig | None:
    """Return where to send lineage. The variables are those of OpenLineage's own clients."""
    to, given = merged.settings.lineage_to, os.environ
    if to is None:
        is_disabled = given.get("OPENLINEAGE_DISABLED", "").lower() in ("1", "true")
        to = None if is_disabled else given.get("OPENLINEAGE_URL")
    if not to:
        return None
    namespace, parent = given.get("OPENLINEAGE_NAMESPACE", "default"), _parent_run()
    with merged.checking("lineage_to"):
        at = _web_address(to)
        if at is None or (at.scheme not in ("", "file", "http", "https")):
            raise ConfigurationError(
                "lineage_to must be an http or https address, or the path of a local file",
                hint="write http://localhost:5000, the address of the catalog, or lineage.jsonl",
            )
        if at.scheme in ("", "file"):
            return LineageConfig("", os.path.abspath(at.path), namespace, None, parent)
        if not at.hostname or at.username or at.password:
            raise ConfigurationError(
                "lineage_to must have a host, and no user or password",
                hint="set the key of the catalog by the environment variable OPENLINEAGE_API_KEY",
            )
    endpoint = given.get("OPENLINEAGE_ENDPOINT", "api/v1/lineage").lstrip("/")
    url = to if at.path.strip("/") else f"{to.rstrip('/')}/{endpoint}"
    return LineageConfig(url, None, namespace, given.get("OPENLINEAGE_API_KEY"), parent)


def _parent_run() -> ParentRun | None:
    """Return the run that OPENLINEAGE_PARENT_ID names. Raise ConfigurationError if it names none."""
    found = os.environ.get("OPENLINEAGE_PARENT_ID")
    if not found:
        return None
    parts = found.rsplit("/", 2)
    try:
        namespace, job, run = parts
        return ParentRun(namespace, job, str(UUID(run)))
    except ValueError:
        raise ConfigurationError(
            f"the environment variable OPENLINEAGE_PARENT_ID={found!r} names no run",
            hint="write namespace/job/id, where the id is a UUID",
        ) from None


def _web_address(url: object) -> SplitResult | None:
    try:
        return urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        return None


def _task(merged: MergedSettings) -> TaskConfig:
    with merged.checking("buffer_timeout"):
        buffer_timeout_us = _buffer_timeout_us(merged.settings.buffer_timeout)
    at_least_once = _read(merged, "checkpoints.at_least_once")
    unaligned_after_ms = _read(merged, "checkpoints.unaligned_after")
    return TaskConfig(
        latency_us=_latency_us(merged),
        batch_rows=_read(merged, "batch_rows"),
        buffer_timeout_us=buffer_timeout_us,
        credits=_read(merged, "credits"),
        guarantee=Guarantee.AT_LEAST_ONCE if at_least_once else Guarantee.EXACTLY_ONCE,
        unaligned_after_us=unaligned_after_ms and unaligned_after_ms * 1000,
    )


def _latency_us(merged: MergedSettings) -> int | None:
    settings = merged.settings
    with merged.checking("buffer_timeout"):
        if settings.latency is not None and settings.buffer_timeout != Settings().buffer_timeout:
            raise ConfigurationError(
                f"latency={settings.latency!r} chooses the buffer timeout itself, but "
                f"buffer_timeout={settings.buffer_timeout!r} is also set",
                hint="leave out one of them",
            )
    latency_ms: int | None = _read(merged, "latency")
    return latency_ms and latency_ms * 1000


def _buffer_timeout_us(value: Duration | int) -> int | None:
    """Return the buffer timeout in us: 0 sends at once, and None (the setting -1) sends only full
    batches."""
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


def _restart(merged: MergedSettings) -> RestartStrategy:
    strategy: Any = merged.settings.restart
    with merged.checking("restart"):
        if strategy is None:
            return ExponentialDelay()
        if isinstance(strategy, RestartStrategy):
            return strategy
        raise ConfigurationError(
            f"restart={strategy!r} is not known",
            hint='write restart=rh.restart.fixed_delay(3, delay="1s")',
        )


def _state(merged: MergedSettings) -> StateConfig:
    state = merged.settings.state
    assert isinstance(state, StateConfig), "merging makes one of a word"
    with merged.checking("state.backend"):
        config = StateConfig.of(state)
    with merged.checking("state.memory_bytes"):
        _check_whole("the memory of the state", config.memory_bytes, _LEAST_STATE_BYTES)
    new_aggregates = _read(merged, "new_aggregates")
    return replace(config, new_aggregates=new_aggregates and NewAggregates(new_aggregates))


def _renamed(merged: MergedSettings) -> dict[str, str]:
    value: Any = merged.settings.renamed
    with merged.checking("renamed"):
        uids = (*value, *value.values()) if isinstance(value, Mapping) else (None,)
        if all(isinstance(uid, str) and uid for uid in uids):
            return dict(value)
        raise ConfigurationError(
            f"renamed must map old uids of operators to new ones, not {value!r}",
            hint='write renamed={"old": "new"}',
        )


def _min_parallelism(
    merged: MergedSettings, parallelism: int, scaling: ScalingBounds | None
) -> int | None:
    if merged.settings.min_parallelism is None:
        return None if scaling is None else scaling.least
    least: int = _read(merged, "min_parallelism")
    with merged.checking("min_parallelism"):
        if scaling is not None:
            raise ConfigurationError(
                "min_parallelism is set, but autoscaling already has its own minimum",
                hint=f'write parallelism="auto:{least}..", and leave out min_parallelism',
            )
        if least > parallelism:
            raise ConfigurationError(
                f"min_parallelism {least} is greater than the parallelism, which is {parallelism}",
                hint="it is the parallelism to fall back to when slots are lost; set a lower one",
            )
    return least


def _read(merged: MergedSettings, name: str) -> Any:
    """Convert the value of a setting by its declared type: durations to ms, folders to absolute paths.
    Raise ConfigurationError or ProgramError if the value is not of that type."""
    declared, value = SETTINGS[name], merged.value(name)
    last = name.rpartition(".")[2]
    if value is None and declared.optional:
        return None
    with merged.checking(name):
        match declared.type:
            case "int" | "Size":
                return _check_whole(last, value, declared.least)
            case "bool" if not isinstance(value, bool):
                raise ConfigurationError(f"{last} must be true or false, not {value!r}")
            case "str" if not isinstance(value, str) or not value:
                raise ConfigurationError(f"{last} must be a non-empty string, not {value!r}")
            case "Folder":
                if isinstance(value, str | os.PathLike) and str(value):
                    return absolute(value)
                raise ConfigurationError(f"{last} must be a path or a URL, not {value!r}")
            case "Duration":
                return _ms(last, value, declared.least)
        if declared.choices and getattr(value, "value", value) not in declared.choices:
            *others, final = (f'"{choice}"' for choice in declared.choices)
            raise ConfigurationError(f"{last} is {', '.join(others)} or {final}, not {value!r}")
    return value


def _check_whole(name: str, value: Any, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigurationError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return value


def _ms(name: str, value: Duration, least: int) -> int:
    try:
        ms = duration_ms(value)
    except ProgramError as error:
        error.what = f"{name}: {error.what}"
        raise
    if ms >= least:
        return ms
    if least:
        raise ConfigurationError(f"{name} must be greater than 0, not {value!r}")
    raise ConfigurationError(f"{name} must not be negative, but is {value!r}")
