"""Removal of old splits from a source's state, which would otherwise grow with every split ever read.

Requirement: although splits are forgotten, no split is read twice, and none is skipped silently. A
split is forgotten if it was read to its end, is gone from the source, and is older by `forget_ms` than
the newest known split. An unknown split of that age may have been forgotten, or may arrive late. The
source cannot distinguish the two, so such a split is an error, and is not read.

    known     |-- older by forget_ms: forgotten once gone --|-- always known --|
              oldest                                     horizon             newest

The horizon is not stored: the newest split is never forgotten, so the horizon follows from the
positions. All subtasks know the same splits, and so the same horizon, after the same messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import Source, Split
from rheos.core.errors import InputError

_NEVER = -(2**63)


class SourceForgetting:
    """The known splits of one subtask, for a source with `forget_ms`."""

    def __init__(self, source: Source, forget_ms: int) -> None:
        self._source = source
        self._forget_ms = forget_ms
        self._made_ms: dict[str, int] = {}
        """Creation times of the known splits that declare one."""
        self._newest_ms = _NEVER
        self._gone: set[str] = set()
        """Ids of known splits that are no longer in the source."""
        self._present: set[str] | None = set()
        """Ids of the splits that were announced in this attempt; None once all splits were
        announced."""
        self._doubtful: list[Split] = []
        """Splits listed at the start of the job that are unknown and too old. They may have gone
        since."""

    def restored(self, known: Iterable[Split], listed: Sequence[Split]) -> set[str]:
        """Return the ids of the listed splits that must not be read. `known` are the splits in the
        restored state, none if the job starts without state. `listed` are the splits of the source now.
        """
        known_ids = set(self._note(known))
        new = [split for split in listed if split.id not in known_ids]
        self._doubtful = [split for split in new if self._is_old(split)]
        doubtful = {split.id for split in self._doubtful}
        present = self._note(split for split in listed if split.id not in doubtful)
        self._present = set(present)
        return doubtful

    def found(self, splits: Sequence[Split], new: Sequence[Split]) -> None:
        """Note that these splits are in the source; this subtask did not know the `new` ones. Raise
        InputError if a new one is too old."""
        for split in new:
            if self._is_old(split):
                raise self._late(split)
        found = self._note(splits)
        if self._present is not None:
            self._present.update(found)

    def gone(self, ids: Sequence[str], *, whole: bool) -> set[str]:
        """Note that these splits are no longer in the source; `whole` means that all existing splits
        were announced. Return the splits to forget. Raise InputError for an existing split that was too
        old when the job started."""
        gone = set(ids)
        self._gone |= gone & self._made_ms.keys()
        self._doubtful = [split for split in self._doubtful if split.id not in gone]
        if whole and self._present is not None:
            if self._doubtful:
                raise self._late(self._doubtful[0])
            self._gone |= self._made_ms.keys() - self._present
            self._present = None
        forgotten = {id for id in self._gone if self._made_ms[id] < self._horizon_ms}
        self._gone -= forgotten
        for id in forgotten:
            del self._made_ms[id]
        return forgotten

    @property
    def _horizon_ms(self) -> int:
        return self._newest_ms - self._forget_ms

    def _is_old(self, split: Split) -> bool:
        made_ms = capabilities.made_ms(self._source, split)
        return made_ms is not None and made_ms < self._horizon_ms

    def _note(self, splits: Iterable[Split]) -> list[str]:
        """Note the splits, and return their ids. A split that exists again is not gone."""
        ids = []
        for split in splits:
            ids.append(split.id)
            made_ms = capabilities.made_ms(self._source, split)
            if made_ms is not None:
                self._made_ms[split.id] = made_ms
                self._newest_ms = max(self._newest_ms, made_ms)
                self._gone.discard(split.id)
        return ids

    def _late(self, split: Split) -> InputError:
        return InputError(
            f"{split.id} is older than the files that {self._source.describe()} remembers: it "
            "arrived too late, or was already read",
            hint="the file is not read. If its rows are missing, rename it and update its "
            "modification time, so that it counts as new; otherwise move it away. A longer "
            "forget= avoids this",
        )
