"""The settings that a job runs with, for display: the names of `Settings`, and values as a user writes
them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from enum import Enum
from typing import Any

from rheos.api import restart
from rheos.api.settings import Checkpoints, Settings
from rheos.core.checkpoint.config import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)
from rheos.core.protocol.durations import duration_ms, written_duration
from rheos.core.protocol.sizes import written_size
from rheos.core.protocol.state_config import StateConfig
from rheos.core.redaction import host_alone, redacted

_STRATEGIES: Mapping[type, Any] = {
    ExponentialDelay: restart.exponential_delay,
    FixedDelay: restart.fixed_delay,
    FailureRate: restart.failure_rate,
    NoRestart: restart.none,
}
_CONCEALED = ("spark", "runtime")
"""Settings that may be objects of the program, of which only the kind is shown."""


def shown_settings(settings: Settings, parallelism: int) -> tuple[tuple[str, str], ...]:
    """Return each setting by its name, with what holds where the user specified nothing.

    Args:
        settings: all settings of the job.
        parallelism: what the job runs with, if the settings do not specify it.
    """
    return tuple(_shown(settings, "", {"parallelism": parallelism, "restart": ExponentialDelay()}))


def _shown(group: Any, prefix: str, defaults: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for setting in fields(group):
        value = getattr(group, setting.name)
        value = defaults.get(setting.name) if value is None else value
        name = f"{prefix}{setting.name}"
        if isinstance(value, Checkpoints | StateConfig):
            yield from _shown(value, f"{name}.", {})
        elif isinstance(value, RestartStrategy):
            yield from _strategy(name, value)
        elif not setting.repr and value is not None:
            yield name, host_alone(value)
        elif isinstance(value, Mapping):
            for key, each in value.items():
                yield f"{name}.{key}", redacted(str(each))
            if not value:
                yield name, "none"
        elif setting.name in _CONCEALED and not isinstance(value, str | None):
            yield name, f"of the program ({type(value).__name__})"
        else:
            yield name, _text(value, name, str(setting.type))


def _strategy(name: str, strategy: RestartStrategy) -> Iterator[tuple[str, str]]:
    """Yield a strategy by the name of its function in `rh.restart`, and the function's arguments."""
    function = _STRATEGIES[type(strategy)]
    yield name, function.__name__
    for argument in inspect.signature(function).parameters:
        in_ms = f"{argument}_ms"
        if hasattr(strategy, in_ms):
            yield f"{name}.{argument}", written_duration(getattr(strategy, in_ms))
        else:
            yield f"{name}.{argument}", f"{getattr(strategy, argument):g}"


def _text(value: Any, name: str, declared: str) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case timedelta():
            return written_duration(duration_ms(value))
        case str() if declared.startswith("Duration"):
            return written_duration(duration_ms(value))
        case int() if name.endswith("_bytes"):
            return written_size(value)
        case Enum():
            return str(value.value)
        case os.PathLike():
            return redacted(os.fspath(value))
        case _:
            return redacted(str(value))
