"""Look-ups of published features: `rh.query(job).features(...)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from rheos.core.site import located_at_call
from rheos.ops.views.view_rows import ViewRows
from rheos.ops.views.written_keys import chosen_key, written_keys
from rheos.runtimes.views.answers import FeatureRequest, ViewPage


class FeatureSource(Protocol):
    """Something that answers look-ups: a job, its client, or a reader of stored checkpoints."""

    def features(self, asked: FeatureRequest) -> ViewPage: ...


class FeatureReads:
    """Published features of a job. Created by `rh.query(job).features(name)`."""

    def __init__(self, source: FeatureSource, name: str) -> None:
        self._source = source
        self.name = name
        """Name of the features."""

    @located_at_call
    def get(self, *key: Any, at: datetime | None = None, **named: Any) -> dict[str, Any]:
        """Look up the features of one key.

        ```python
        row = rh.query("shop").features("user_spend").get(user="ada")
        print(row["total"], row["user_spend_status"])
        ```

        Args:
            key: Values of the key's columns, in their order.
            at: Time of the look-up, by which the age of the values is measured; by default now.
            named: Values of the key's columns by name, instead of `key`.

        Returns:
            The key, the features, the event time of the values (`NAME_at`), `NAME_status` and
            `asked_at`. The status is "fresh", "stale" (older than the maximum age) or "missing". In
            the last two cases the features have their defaults, or None.

        Raises:
            ConfigurationError: The job has no such features, or the key does not fit.
            CheckpointError: The job has no checkpoint yet.
        """
        found = self._asked([chosen_key(key, named)], at)
        row: dict[str, Any] = found.table.to_pylist()[0]
        return row

    @located_at_call
    def get_many(
        self, keys: Iterable[Any | Sequence[Any] | Mapping[str, Any]], *, at: datetime | None = None
    ) -> ViewRows:
        """Look up the features of up to 1,000 keys, all at one checkpoint.

        ```python
        rows = rh.query("shop").features("user_spend").get_many(["ada", "bo"]).table
        ```

        Args:
            keys: The keys. With several columns, a key is a sequence of values, or a mapping by column.
            at: As in `get`.

        Returns:
            A row for each key, in their order, with the columns of `get`.

        Raises:
            ConfigurationError: The job has no such features, there are too many keys, or one does not
                fit.
            CheckpointError: The job has no checkpoint yet.
        """
        return self._asked(list(keys), at)

    def _asked(self, keys: list[Any], at: datetime | None) -> ViewRows:
        moment = None if at is None else at.isoformat()
        page = self._source.features(
            FeatureRequest(features=self.name, keys=written_keys(keys), at=moment, arrow=True)
        )
        return ViewRows(page.table, page.checkpoint, page.completed)
