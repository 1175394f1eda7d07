"""The settings that a job runs with, for display: the names of `Settings`, and values as a user writes
them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import Enum
from operator import attrgetter
from typing import Any

from rheos.api import restart
from rheos.api.settings import SETTINGS, Settings
from rheos.core.checkpoint.config import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartStrategy,
)
from rheos.core.protocol.durations import duration_ms, written_duration
from rheos.core.protocol.sizes import written_size
from rheos.core.redaction import host_alone, redacted

_STRATEGIES: Mapping[type, Any] = {
    ExponentialDelay: restart.exponential_delay,
    FixedDelay: restart.fixed_delay,
    FailureRate: restart.failure_rate,
    NoRestart: restart.none,
}


def shown_settings(settings: Settings, parallelism: int) -> Iterator[tuple[str, str]]:
    """Yield each setting by its name, with its value or its default.

    Args:
        settings: All settings of the job.
        parallelism: The job's parallelism, if the settings do not specify it.
    """
    defaults: dict[str, Any] = {"parallelism": parallelism, "restart": ExponentialDelay()}
    for name, declared in SETTINGS.items():
        value = attrgetter(name)(settings)
        value = defaults.get(name) if value is None else value
        if isinstance(value, RestartStrategy):
            yield from _strategy(name, value)
        elif declared.secret and value is not None:
            yield name, host_alone(str(value))
        elif isinstance(value, Mapping):
            for key, each in value.items():
                yield f"{name}.{key}", redacted(str(each))
            if not value:
                yield name, "none"
        elif declared.group is None:
            yield name, _text(value, declared.type)


def _strategy(name: str, strategy: RestartStrategy) -> Iterator[tuple[str, str]]:
    """Yield the name of the function in `rh.restart` that made a strategy, then the function's
    arguments."""
    function = _STRATEGIES[type(strategy)]
    yield name, function.__name__
    for argument in inspect.signature(function).parameters:
        in_ms = f"{argument}_ms"
        if hasattr(strategy, in_ms):
            yield f"{name}.{argument}", written_duration(getattr(strategy, in_ms))
        else:
            yield f"{name}.{argument}", f"{getattr(strategy, argument):g}"


def _text(value: Any, declared: str) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case timedelta():
            return written_duration(duration_ms(value))
        case str() if declared.startswith("Duration"):
            return written_duration(duration_ms(value))
        case int() if declared == "Size":
            return written_size(value)
        case Enum():
            return str(value.value)
        case str() | int() | float():
            return redacted(str(value))
        case os.PathLike():
            return redacted(os.fspath(value))
        case _:
            # The repr of a program's object may be long, and contain anything.
            return f"of the program ({type(value).__name__})"
