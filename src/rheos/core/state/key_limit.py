"""The limit of the state that one key may keep in an operator, and the key that keeps the most.

Keyed state is bounded by event time, by a time to live, or by one value per key. Otherwise one key can
take all memory: a list that is only appended to, rows of a join without a time to live, partial matches
that double with each row. In these cases a `KeyLimit` ends the job with an error that names the key.
`docs/tuning.md` lists the bound of each operator.

An operator compares a size with `due`, which costs one comparison, and calls `see` only if the size is
above it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rheos.core.errors import InputError, Site
from rheos.core.protocol.state_config import StateConfig

_LEAST_SHOWN = 100
"""Minimum size for which the largest key is reported by name."""

_MOST_CHARACTERS = 200
"""Maximum number of characters of a key in a metric."""


class KeyContents(Enum):
    """A kind of state of a key: name, field of `rh.StateConfig` that limits it, how to keep less."""

    WINDOW_ROWS = (
        "rows of windows",
        "rows_per_key",
        (
            "use shorter windows or a shorter gap, aggregates instead of functions of all rows, or "
            "a key with fewer rows"
        ),
    )
    JOIN_ROWS = (
        "rows of one side of a join",
        "rows_per_key",
        (
            "set a time to live (`ttl=`, or `state_ttl=` in SQL), or join within a time interval "
            "(`between=`)"
        ),
    )
    OVER_ROWS = (
        "rows of OVER",
        "rows_per_key",
        "use a shorter frame (ROWS or RANGE ... PRECEDING), or partition by more columns",
    )
    RANKED_ROWS = (
        "rows of a ranking",
        "rows_per_key",
        "rank rows that are not changes, which keeps only the first of them, or filter them first",
    )
    TABLE_ROWS = (
        "current rows with one key of a table",
        "rows_per_key",
        "use key columns that identify a row, or set a time to live (`ttl=`, or SET state_ttl in SQL)",
    )
    ELEMENTS = (
        "elements of a list",
        "rows_per_key",
        "set a time to live (`ttl=`), clear the list, or store less in it",
    )
    ENTRIES = (
        "entries of a map",
        "rows_per_key",
        "set a time to live (`ttl=`), delete entries, or store less in it",
    )
    VALUES = (
        "different values",
        "rows_per_key",
        "round the values, aggregate other values, or use a key with fewer values",
    )
    MATCHES = (
        "partial matches",
        "matches_per_key",
        (
            "limit the time of a match (`within`), let a match exclude others (`after_match`), or "
            "let steps match fewer rows: next() or followed_by() instead of followed_by_any(), "
            "without allow_combinations()"
        ),
    )

    @property
    def noun(self) -> str:
        return self.value[0]

    @property
    def setting(self) -> str:
        return self.value[1]

    @property
    def hint(self) -> str:
        return self.value[2]


@dataclass(slots=True)
class KeyLimit:
    """A limit on one kind of state of one operator."""

    kept: KeyContents
    most: int
    site: Site | None = None
    operator: str | None = None
    due: int = 0
    """Size above which a key must be passed to `see`."""
    largest: int = 0
    """Size of the largest key in this attempt, exact to an eighth."""
    key: str = ""
    """Key that has kept the most."""

    def __post_init__(self) -> None:
        self._set_due()

    @classmethod
    def of(
        cls, config: StateConfig, kept: KeyContents, *, site: Site | None, operator: str | None
    ) -> KeyLimit:
        """Return the limit that the job's settings define for this kind of state."""
        return cls(kept, getattr(config, kept.setting), site, operator)

    def see(self, size: int, key: Any) -> None:
        """Note the size of a key's state.

        Raises:
            InputError: The size exceeds the limit.
        """
        if size > self.most:
            raise InputError(
                f"one key has more than {self.most:,} {self.kept.noun}",
                site=self.site,
                operator=self.operator,
                key=_text(key),
                hint=f"{self.kept.hint}; or raise the limit: "
                f"state=rh.StateConfig({self.kept.setting}=...)",
            )
        if size > self.largest:
            self.largest, self.key = size, _text(key)
            self._set_due()

    def _set_due(self) -> None:
        self.due = min(self.most, max(_LEAST_SHOWN, self.largest + self.largest // 8))


@dataclass(slots=True)
class CountedLimit:
    """A limit on rows that are not counted by key on arrival.

    A key has at most the rows it had at the last count, plus all rows added since. So keys are counted
    again only when enough rows were added: as many as existed at the last count, or as many as the
    largest key may still receive. At least an eighth as many must have been added, so a key may exceed
    the limit by that number.
    """

    limit: KeyLimit
    _added: int = 0
    _count_after: int = 0

    def add(self, rows: int, total: int, largest: Callable[[int], tuple[int, Any] | None]) -> None:
        """Note that rows were added, and count keys if that is due.

        Args:
            rows: Number of added rows.
            total: Number of rows of all keys now.
            largest: Function that returns the most rows that a key has, and that key. It may return
                None if no key has more rows than its argument.

        Raises:
            InputError: A key has more rows than the limit.
        """
        self._added += rows
        if self._added < self._count_after or total <= self.limit.due:
            return
        size = self.limit.due
        if (counted := largest(size)) is not None:
            size, key = counted
            self.limit.see(size, key)
        self._added = 0
        self._count_after = max(min(total, self.limit.most - size), total // 8)


def _text(key: Any) -> str:
    values = key if isinstance(key, Sequence) and not isinstance(key, str | bytes) else (key,)
    return ", ".join(map(repr, values))[:_MOST_CHARACTERS]
