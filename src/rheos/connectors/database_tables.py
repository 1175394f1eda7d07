"""The tables of a database, for a job that reads the changes of all of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from rheos.core.errors import ConfigurationError, ProgramError

LOGGER = logging.getLogger("rheos.sources")


@dataclass(frozen=True)
class TableSelection:
    """Patterns that select tables of a database."""

    include: tuple[str, ...] = ("*",)
    """Patterns, of which a table matches one."""
    exclude: tuple[str, ...] = ()
    """Patterns, of which a table matches none."""

    def has(self, name: str) -> bool:
        """Return whether a table is selected."""
        return _matches(name, self.include) and not _matches(name, self.exclude)


@dataclass(frozen=True)
class DatabaseTable:
    """A table of a database, which `changes` accepts as its table."""

    name: str
    """Name of the table."""
    key: tuple[str, ...]
    """Columns of its primary key."""
    selection: TableSelection = TableSelection()
    """Selection of tables, to which this one belongs."""
    schema: str = ""
    """Schema of the table in PostgreSQL; empty if the server has no schemas within a database."""

    @property
    def qualified(self) -> str:
        """Return the name with the schema, if it has one."""
        return f"{self.schema}.{self.name}" if self.schema else self.name


def check_patterns(**given: Any) -> None:
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
    database: str, keys: Mapping[str, Sequence[str]], selection: TableSelection, schema: str = ""
) -> tuple[DatabaseTable, ...]:
    """Return the selected tables that have a primary key, in the order of their names. A warning names
    the others.

    Args:
        database: Name of the database, for messages.
        keys: Primary keys of all tables, by the names of the tables.
        selection: Selection of the tables.
        schema: Schema of the tables, if the server has schemas within a database.

    Returns:
        The tables.

    Raises:
        ConfigurationError: There is no such table.
    """
    found = [name for name in sorted(keys) if selection.has(name)]
    without = [name for name in found if not keys[name]]
    if without:
        LOGGER.warning(
            "tables of %s are left out, because they have no primary key: %s. Add one, or name them in "
            "exclude=",
            database,
            ", ".join(without[:20]),
        )
    if len(found) == len(without):
        raise ConfigurationError(
            f"no table of {database} matches {list(selection.include)} and has a primary key",
            hint=f"its tables are {', '.join(sorted(keys)[:20]) or 'none'}",
        )
    return tuple(
        DatabaseTable(name, tuple(keys[name]), selection, schema) for name in found if keys[name]
    )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
