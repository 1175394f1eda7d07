"""The tables of a database, for a job that reads the changes of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from rheos.core.errors import ConfigurationError, ProgramError


@dataclass(frozen=True)
class DatabaseTable:
    """A table of a database."""

    name: str
    """Name by which `changes` reads it."""
    key: tuple[str, ...]
    """Columns of its primary key."""


def check_patterns(**given: object) -> None:
    """Check that each argument is a sequence of patterns.

    Args:
        **given: The arguments by name.

    Raises:
        ProgramError: An argument is a string, or contains something else than strings.
    """
    for name, patterns in given.items():
        is_sequence = isinstance(patterns, Sequence) and not isinstance(patterns, str)
        if not is_sequence or not all(isinstance(each, str) for each in patterns):
            raise ProgramError(
                f"{name}={patterns!r} is not a list of patterns", hint=f'write {name}=["order*"]'
            )


def selected_tables(
    database: str,
    keys: Mapping[str, Sequence[str]],
    include: Sequence[str],
    exclude: Sequence[str],
) -> tuple[DatabaseTable, ...]:
    """Return the tables that match, in the order of their names.

    Args:
        database: Name of the database, for messages.
        keys: Primary keys of all tables, by the names of the tables.
        include: Patterns, of which a table matches one.
        exclude: Patterns, of which a table matches none.

    Returns:
        The tables.

    Raises:
        ConfigurationError: No table matches, or one that does has no primary key.
    """
    found = [name for name in sorted(keys) if _matches(name, include) and not _matches(name, exclude)]
    if not found:
        raise ConfigurationError(
            f"no table of {database} matches {list(include)}",
            hint=f"its tables are {', '.join(sorted(keys)[:20]) or 'none'}",
        )
    without = [name for name in found if not keys[name]]
    if without:
        raise ConfigurationError(
            f"tables of {database} have no primary key: {', '.join(without[:20])}",
            hint=f"add one, or write exclude={without[:3]}",
        )
    return tuple(DatabaseTable(name, tuple(keys[name])) for name in found)


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
