"""Partial settings from one place, and their merge into one `Settings`.

The names are those of `Settings`. A field of one of its groups is named by both: "checkpoints.retain",
"state.backend". In a file, a group is a table:

    parallelism = 8
    checkpoint_dir = "s3://bucket/checkpoints"
    restart = { strategy = "fixed_delay", attempts = 3, delay = "5s" }

    [checkpoints]
    retain = 5

    [state]
    backend = "rocksdb"
    memory_bytes = "512MB"
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

from rheos.api import restart
from rheos.api.settings import SETTINGS, Settings
from rheos.core.errors import ConfigurationError, RheosError, Site
from rheos.core.protocol.sizes import size_bytes
from rheos.core.protocol.state_config import StateConfig

Place: TypeAlias = Site | str
"""Place at which a setting was made: a line of a file, or an option of the command."""


@dataclass(frozen=True)
class PartialSettings:
    """Settings from one place. Creating it raises ConfigurationError for an unknown name."""

    values: Mapping[str, Any]
    place: Callable[[str], Place]
    """Place of a setting, by its name."""
    file: str | None = None
    """Absolute path of the file with the settings; None if they are from elsewhere."""

    def __post_init__(self) -> None:
        for name in self.values:
            if name not in SETTINGS:
                with blamed(self.place(name)):
                    raise _unknown(name)


@dataclass(frozen=True)
class MergedSettings:
    """Result of merging all places."""

    settings: Settings
    site: Site
    """Site of the environment with these settings."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """Place that took precedence, for each setting that was made explicitly."""

    def value(self, name: str) -> Any:
        """Return the value of a setting, by its name."""
        return attrgetter(name)(self.settings)

    @contextmanager
    def checking(self, *names: str) -> Iterator[None]:
        """Add the place of a setting to errors of the block: that of the first of these settings that
        is set."""
        wider = [name.partition(".")[0] for name in names]
        given = (self.places[name] for name in (*names, *wider) if name in self.places)
        with blamed(next(given, self.site)):
            yield


@contextmanager
def blamed(place: Place) -> Iterator[None]:
    """Add a place to the errors of the block."""
    try:
        yield
    except RheosError as error:
        if isinstance(place, Site):
            error.site = place
        else:
            error.what = f"{place}: {error.what}"
        raise error from None


def merge(partials: Sequence[PartialSettings], site: Site) -> MergedSettings:
    """Merge partial settings; later ones take precedence. `site` is the line of the environment. Raise
    ConfigurationError if a group is not valid."""
    merged = MergedSettings(Settings(state=StateConfig()), site)  # a short form is expanded
    for partial in partials:
        # Groups come first, so that their single fields override them.
        for name in sorted(partial.values, key=lambda name: "." in name):
            merged = _set_value(merged, name, partial.values[name], partial.place(name))
    return merged


def _set_value(merged: MergedSettings, name: str, value: Any, place: Place) -> MergedSettings:
    group, _, part = name.partition(".")
    with blamed(place):
        if part:
            value = replace(merged.value(group), **{part: value})
        elif (of := SETTINGS[name].group) is not None:
            value = of.of(value)  # type: ignore[attr-defined]
    settings = replace(merged.settings, **{group: value})
    # A group that is set as a whole replaces all earlier settings of its fields.
    before = {
        setting: at for setting, at in merged.places.items() if not setting.startswith(f"{name}.")
    }
    return replace(merged, settings=settings, places={**before, name: place})


def from_program(values: Mapping[str, Any], site: Site) -> PartialSettings:
    """Return the settings in the arguments of `rh.Environment`, at that line."""
    return PartialSettings(values, lambda name: site)


def whole(settings: Any, site: Site) -> PartialSettings:
    """Return the settings in `rh.Environment(settings=...)`."""
    if not isinstance(settings, Settings):
        raise ConfigurationError(
            f"settings={settings!r} is not known",
            site=site,
            hint="write rh.Environment(settings=rh.Settings(parallelism=2))",
        )
    return from_program({each.name: getattr(settings, each.name) for each in fields(settings)}, site)


def from_command(values: Mapping[str, Any]) -> PartialSettings:
    """Return the settings in the command's options. None means not set."""
    given = {name: value for name, value in values.items() if value is not None}
    return PartialSettings(given, lambda name: SETTINGS[name].option or name)


def from_file(path: str | Path) -> PartialSettings:
    """Read settings from a TOML file. Raise ConfigurationError if the file does not exist or is not
    valid TOML. Also raise it for an unknown setting, and for one that only a program can set."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"the settings in {str(path)!r} cannot be read: {error}",
            hint="pass a valid TOML file: rheos run job.py --config job.toml",
        ) from None
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(
            f"the settings in {str(path)!r} are not TOML: {error}",
            hint='write one setting a line, such as: checkpoint_interval = "10s"',
        ) from None
    lines = _lines(text)

    def place(name: str) -> Site:
        return Site(str(path), lines.get(name) or lines.get(name.partition(".")[0], 1))

    return PartialSettings(dict(_read(tables, place)), place, os.path.abspath(path))


def _read(tables: Mapping[str, Any], place: Callable[[str], Place]) -> Iterator[tuple[str, Any]]:
    for name, value in tables.items():
        declared = SETTINGS.get(name)
        if declared is not None and declared.group is not None and isinstance(value, dict):
            yield from _read({f"{name}.{part}": inner for part, inner in value.items()}, place)
        elif declared is None or declared.type not in _FROM_FILE:
            yield name, value
        else:
            with blamed(place(name)):
                yield name, _FROM_FILE[declared.type](value)


def _session(value: Any) -> Any:
    raise ConfigurationError(
        "a Spark session cannot be configured in a file", hint="set the master instead"
    )


def _strategy(value: Any) -> Any:
    """Return a restart strategy from a file: `"none"`, or `{ strategy = "fixed_delay", attempts = 3 }`,
    which names a function of `rh.restart`."""
    fields = dict(value) if isinstance(value, dict) else {"strategy": value}
    name = fields.pop("strategy", None)
    names = [each for each in restart.__all__ if each.islower()]
    try:
        if name not in names:
            raise TypeError(f"unknown restart strategy {name!r}")
        return getattr(restart, name)(**fields)
    except TypeError as error:
        raise ConfigurationError(
            f"restart: {error.what if isinstance(error, RheosError) else error}",
            hint='write restart = { strategy = "fixed_delay", attempts = 3, delay = "1s" }; the '
            f"strategies are {', '.join(names)}",
        ) from None


_FROM_FILE: Mapping[str, Callable[[Any], Any]] = {
    "RestartStrategy": _strategy,
    "Session": _session,
    "Size": size_bytes,
}
"""Conversions of values in a file, by the type of the setting. Other values are used unchanged."""

_TABLE = re.compile(r"\s*\[\s*([\w.]+)\s*\]")
_KEY = re.compile(r"\s*([\w.]+)\s*=")


def _lines(text: str) -> dict[str, int]:
    """Return the line of each setting, as far as it can be found without parsing."""
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if match := _TABLE.match(line):
            table = f"{match[1]}."
            found.setdefault(match[1], number)
        elif match := _KEY.match(line):
            found.setdefault(table + match[1], number)
    return found


def _unknown(name: str) -> RheosError:
    meant = get_close_matches(name, SETTINGS, 1)
    return ConfigurationError(
        f"unknown setting {name!r}",
        hint=f"write {meant[0]}" if meant else "rh.Settings lists all settings",
    )
