"""Settings: where they may be set, which place has precedence, and how errors name setting and
place."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.api.partial_settings import (
    PartialSettings,
    from_command,
    from_file,
    from_program,
    merge,
)
from rheos.api.resolve import ResolvedSettings, resolve
from rheos.api.settings import SETTINGS, Settings
from rheos.core.checkpoint.config import FixedDelay, NoRestart
from rheos.core.errors import Site
from rheos.core.protocol.state_config import Backend, StateConfig
from rheos.core.task.config import Guarantee
from tests.api.programs import events, refused

PROGRAM = Site("job.py", 7)


def command(**values: Any) -> PartialSettings:
    return from_command({name.replace("__", "."): value for name, value in values.items()})


def program(**values: Any) -> PartialSettings:
    return from_program(values, PROGRAM)


def settled(*partials: PartialSettings) -> ResolvedSettings:
    return resolve(merge(partials, PROGRAM))


@pytest.fixture
def toml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def read(text: str) -> PartialSettings:
        Path("job.toml").write_text(text)
        return from_file("job.toml")

    return read


def test_the_environment_accepts_and_shows_every_setting() -> None:
    names = {setting.name for setting in fields(Settings)}
    shown = inspect.signature(rh.Environment).parameters
    assert set(shown) == names | {"settings", "parameters", "files"}
    assert shown["checkpoint_interval"].default == "10s"
    documented = [line.split(":")[0].strip() for line in (Settings.__doc__ or "").splitlines()]
    assert names <= set(documented)


def test_precedence_is_command_then_file_then_program(toml: Any) -> None:
    whole = program(parallelism=1, credits=1, batch_rows=1, min_parallelism=1, master="local[1]")
    said = program(parallelism=2, credits=2, batch_rows=2, min_parallelism=2)
    file = toml("parallelism = 3\ncredits = 3\nmin_parallelism = 3\n")
    options = command(parallelism=4, min_parallelism=None)
    found = settled(whole, said, file, options)
    task = found.config.task
    assert (found.parallelism, task.credits, task.batch_rows) == (4, 3, 2)
    assert (found.config.min_parallelism, found.config.master) == (3, "local[1]")


def test_setting_one_field_of_a_group_keeps_the_programs_others() -> None:
    written = program(
        checkpoints=rh.Checkpoints(retain=7, unaligned_after="9s", at_least_once=True),
        state=rh.StateConfig(directory="/fast"),
    )
    options = command(
        state__backend="rocksdb",
        state__memory_bytes=1 << 25,
        checkpoints__unaligned_after="0s",
    )
    file = PartialSettings({"checkpoints.at_least_once": False}, lambda name: "there")
    config = settled(written, file, options).config
    assert config.state == StateConfig(Backend.ROCKSDB, 1 << 25, "/fast")
    assert config.checkpoint.retain == 7
    assert config.task.unaligned_after_us == 0
    assert config.task.guarantee is Guarantee.EXACTLY_ONCE


def test_a_file_has_tables_for_groups_and_for_the_restart_strategy(toml: Any) -> None:
    config = settled(
        program(restart=rh.restart.none()),
        toml(
            """
            checkpoint_dir = "state"
            allow_dropped = true
            restart = { strategy = "fixed_delay", attempts = 3, delay = "5s" }

            [checkpoints]
            retain = 5

            [state]
            backend = "rocksdb"
            memory_bytes = "512MB"
            """
        ),
    ).config
    assert config.checkpoint.restart == FixedDelay(3, 5000)
    assert (config.checkpoint.retain, config.allow_dropped) == (5, True)
    assert config.checkpoint_dir == str(Path("state").absolute())
    assert config.state == StateConfig(Backend.ROCKSDB, 512 << 20)
    words = toml('restart = "none"\nstate = "rocksdb"\n')
    assert settled(words).config.checkpoint.restart == NoRestart()
    assert settled(words).config.state.backend is Backend.ROCKSDB


def test_one_settings_object_serves_several_environments(tmp_path: Path) -> None:
    ours = rh.Settings(parallelism=3, checkpoint_dir=tmp_path, max_parallelism=64)
    assert rh.Environment(settings=ours).parallelism == 3
    env = rh.Environment(2, settings=ours, runtime="simulated")
    events(env).collect("rows")
    assert env.plan().parallelism == 2
    assert env.plan().max_parallelism == 64


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("credits = 1\ncheckpoint_interval = 'often'", "job.toml:2: checkpoint_interval: 'often' is"),
        ("[checkpoints]\n\nretain = 0", "job.toml:3: retain must be a whole number of at least 1"),
        ("[state]\nbackend = 'redis'", "job.toml:2: unknown state backend 'redis'"),
        ("state.memory_bytes = 'much'", "job.toml:1: 'much' is not a size"),
        ("allow_dropped = 'yes'", "job.toml:1: allow_dropped must be true or false, not 'yes'"),
        ("master = 4", "job.toml:1: master must be a non-empty string, not 4"),
        ("checkpoint_dir = 4", "job.toml:1: checkpoint_dir must be a path or a URL, not 4"),
        ("\nparallelism = 'four'", "job.toml:2: parallelism='four' is not valid"),
        ("\nparalelism = 4", "job.toml:2: unknown setting 'paralelism'"),
        ("[checkpoints]\nkeep = 4", "job.toml:2: unknown setting 'checkpoints.keep'"),
        ("spark = 'local'", "job.toml:1: a Spark session cannot be configured in a file"),
        ("checkpoints = 5", "job.toml:1: checkpoints=5 is not known"),
        ("restart = 'often'", "job.toml:1: restart: unknown restart strategy 'often'"),
        (
            "restart = { strategy = 'fixed_delay' }",
            "job.toml:1: restart: fixed_delay(): missing a required argument: 'attempts'",
        ),
        ("[checkpoints\n", "the settings in 'job.toml' are not TOML"),
    ],
)
def test_an_error_in_a_file_names_the_setting_and_its_line(text: str, said: str, toml: Any) -> None:
    with pytest.raises(rh.RheosError) as caught:
        settled(toml(text))
    assert str(caught.value).startswith(said)
    assert caught.value.hint or "must be" in said or "is true or" in said or "is a " in said


def test_a_missing_file_of_settings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(rh.ConfigurationError, match="cannot be read"):
        from_file(tmp_path / "gone.toml")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"runtime": "spark"}, "--runtime: unknown runtime 'spark'"),
        ({"state__memory_bytes": 5}, "--state-memory: the memory of the state must be"),
        (
            {"checkpoints__unaligned_after": "1s"},
            "--unaligned-after: at-least-once checkpoints have no aligned barriers",
        ),
        ({"min_parallelism": 9}, "--min-parallelism: min_parallelism 9 is greater"),
        ({"parallelism": 200}, "--parallelism: parallelism 200 is greater than max_parallelism 128"),
    ],
)
def test_an_error_of_the_command_names_the_option(values: Mapping[str, Any], said: str) -> None:
    written = program(parallelism=2, checkpoints=rh.Checkpoints(at_least_once=True))
    with pytest.raises(rh.RheosError) as caught:
        settled(written, command(**values))
    assert str(caught.value).startswith(said)


def test_a_wrong_setting_of_the_program_is_refused_at_its_line() -> None:
    refused(
        lambda: rh.Environment(paralelism=2),  # type: ignore[call-arg]
        rh.ConfigurationError,
        "unknown setting 'paralelism'",
        "write parallelism",
        at="rh.Environment",
    )
    refused(
        lambda: rh.Environment(settings=4),  # type: ignore[arg-type]
        rh.ConfigurationError,
        "settings=4 is not known",
        "rh.Settings",
        at="rh.Environment",
    )


def test_every_setting_is_declared_once_with_what_is_derived_from_it() -> None:
    options = [each.option for each in SETTINGS.values() if each.option]
    assert len(options) == len(set(options)) > 15
    for each in SETTINGS.values():
        assert each.section
        assert each.help[0].isupper()
        assert each.help[-1] == "."


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alert_webhook": "ftp://a/b"}, "must be an http or https address"),
        ({"alert_webhook": "https://[x/b"}, "must be an http or https address"),
        ({"alert_webhook": "https://user:pass@a/b"}, "alert_webhook must not contain a user or a"),
        ({"alert_from": "healthy"}, "unknown health state 'healthy' for alerts"),
    ],
)
def test_an_address_for_alerts_is_checked(given: dict[str, Any], message: str) -> None:
    with pytest.raises(rh.ConfigurationError, match=message):
        settled(program(**given))


def test_no_repr_shows_an_address_for_alerts() -> None:
    address = "https://hooks.example.com/SECRET"
    alerts = settled(program(alert_webhook=address, alert_from="failing")).config.alerts
    assert alerts is not None
    assert (alerts.url, alerts.least.value) == (address, "failing")
    assert "SECRET" not in repr(alerts)
    shown = dict(settled(program(alert_webhook=address)).config.settings)
    assert shown["alert_webhook"] == "https://hooks.example.com/***"
    assert settled(program()).config.alerts is None
    assert "SECRET" not in repr(rh.Settings(alert_webhook="https://hooks.example.com/SECRET"))
