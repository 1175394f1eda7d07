"""Display of settings: under the names of `rh.Settings`, with values that a user could write."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.api import partial_settings, restart
from rheos.api.resolve import resolve
from rheos.api.settings import SETTINGS, Checkpoints, Settings
from rheos.core.errors import Site
from rheos.core.protocol.state_config import Backend, StateConfig
from rheos.runtimes.job import JobConfig

SITE = Site("job.py", 1)
ONLY_IN_PROGRAMS = ("spark",)


def config_of(settings: Settings) -> JobConfig:
    return resolve(partial_settings.merge([partial_settings.whole(settings, SITE)], SITE)).config


def shown(settings: Settings) -> dict[str, str]:
    return dict(config_of(settings).settings)


OTHER = Settings(
    parallelism="auto:2..8",
    max_parallelism=64,
    min_parallelism=None,
    runtime="continuous",
    master="local[4]",
    checkpoint_dir="/data/checkpoints",
    checkpoint_interval=timedelta(seconds=90),
    checkpoint_timeout="1h30m",
    checkpoints=Checkpoints(
        max_concurrent=2, unaligned_after="500ms", retain=5, tolerable_failures=0, min_pause="0s"
    ),
    restart=restart.failure_rate(3, interval="5m", delay="2s"),
    state=StateConfig(Backend.ROCKSDB, 512 << 20, "/scratch", 1000, 50),
    from_savepoint="/data/savepoints/1",
    allow_dropped=True,
    new_aggregates="since",
    renamed={"orders": "purchases"},
    batch_rows=1000,
    buffer_timeout=-1,
    credits=2,
    latency=None,
    encrypt=True,
    heartbeat_timeout="30 seconds",
    termination_grace="5s",
    termination_savepoint=True,
    history_interval="1m",
    log_level="warning",
)
"""Every setting is another than by default, but for those that exclude each other."""


def test_every_setting_is_shown_by_its_name() -> None:
    """Check every setting, including those added later: it must be shown under its name, and not as a
    repr."""
    for settings in (Settings(), OTHER):
        found = shown(settings)
        whole = ("restart", "renamed")
        names = {name.partition(".")[0] if name.startswith(whole) else name for name in found}
        assert names == set(SETTINGS) - {"checkpoints", "state"}
        assert not [name for name, text in found.items() if any(c in text for c in "(=<'\"")]


def test_default_settings_are_shown() -> None:
    found = shown(Settings(parallelism=2))
    assert found == {
        "parallelism": "2",
        "max_parallelism": "128",
        "min_parallelism": "none",
        "runtime": "auto",
        "spark": "none",
        "master": "none",
        "checkpoint_dir": "none",
        "checkpoint_interval": "10s",
        "checkpoint_timeout": "10m",
        "checkpoints.max_concurrent": "1",
        "checkpoints.unaligned_after": "none",
        "checkpoints.at_least_once": "false",
        "checkpoints.retain": "2",
        "checkpoints.min_pause": "0s",
        "checkpoints.tolerable_failures": "3",
        "restart": "exponential_delay",
        "restart.initial": "100ms",
        "restart.factor": "2",
        "restart.max": "1m",
        "restart.reset_after": "10m",
        "state.backend": "memory",
        "state.memory_bytes": "256MB",
        "state.directory": "none",
        "state.rows_per_key": "10000000",
        "state.matches_per_key": "100000",
        "from_savepoint": "none",
        "allow_dropped": "false",
        "new_aggregates": "none",
        "state.new_aggregates": "none",
        "renamed": "none",
        "batch_rows": "16384",
        "buffer_timeout": "10ms",
        "credits": "4",
        "compiled": "true",
        "latency": "none",
        "encrypt": "none",
        "heartbeat_timeout": "15s",
        "restore_ahead": "false",
        "termination_grace": "20s",
        "termination_savepoint": "false",
        "history_interval": "10s",
        "log_level": "info",
        "lineage_to": "none",
        "alert_webhook": "none",
        "alert_from": "stuck",
    }


STRATEGIES = [
    restart.exponential_delay("1s", factor=1.5),
    restart.fixed_delay(3, delay="90s"),
    restart.failure_rate(2, interval="1h"),
    restart.none(),
]


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        OTHER,
        Settings(latency="250ms", min_parallelism=1, parallelism=4),
        *(Settings(restart=strategy) for strategy in STRATEGIES),
    ],
)
def test_shown_settings_are_valid_in_a_file(settings: Settings, tmp_path: Path) -> None:
    config = config_of(settings)
    path = tmp_path / "job.toml"
    path.write_text(toml_of(dict(config.settings)))
    read = resolve(partial_settings.merge([partial_settings.from_file(path)], SITE)).config
    assert read == config


def test_all_restart_strategies_are_shown() -> None:
    names = {shown(Settings(restart=strategy))["restart"] for strategy in STRATEGIES}
    assert names == {name for name in restart.__all__ if name.islower()}


def test_objects_of_the_program_and_credentials_are_not_shown() -> None:
    class Session:
        def __repr__(self) -> str:
            raise AssertionError("it may be long, and hold anything")

    found = shown(replace(Settings(), spark=Session(), checkpoint_dir="s3://key:hidden@bucket/c"))
    assert found["spark"] == "of the program (Session)"
    assert found["checkpoint_dir"] == "s3://***@bucket/c"


def test_each_environment_shows_its_settings() -> None:
    env = rh.Environment(2, checkpoint_interval="1s")
    found = dict(env._config.settings)
    assert (found["parallelism"], found["checkpoint_interval"]) == ("2", "1s")
    assert {setting.name for setting in fields(Settings)} <= {name.partition(".")[0] for name in found}


def toml_of(found: Mapping[str, str]) -> str:
    """Return the shown settings as TOML, without those that are "none"."""
    tables: dict[str, dict[str, Any]] = {"": {}}
    for name, text in found.items():
        group, _, part = name.rpartition(".")
        if name == "restart":
            group, part = "restart", "strategy"
        if text != "none" or part == "strategy":
            tables.setdefault(group, {})[part] = _written(text)
    lines = []
    for group, values in tables.items():
        lines += [f"[{group}]"] if group else []
        lines += [f"{name} = {text}" for name, text in values.items()]
    text = "\n".join(lines)
    assert tomllib.loads(text)
    return text


def _written(text: str) -> str:
    number = text.lstrip("-").replace(".", "", 1).isdecimal()
    return text if number or text in ("true", "false") else f'"{text}"'
