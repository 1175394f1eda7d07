"""Sends bulk requests one after the other, and handles each item's result.

200..299               written
404 of a delete        the document did not exist
409                    version conflict: a newer version exists, which is correct
429, 500, 502 to 504   sent again, alone, until it is accepted or the retry budget is spent
400, 413               caused by the row: it ends the job, or is skipped
any other              not caused by the row, and so is a 400 of the index or cluster: ends the job
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from rheos.connectors.opensearch.client import Connection, may_pass
from rheos.connectors.opensearch.documents import Action
from rheos.connectors.outage_patience import Patience
from rheos.core.errors import ConfigurationError, InputError, RheosError, UnavailableError

REJECTED = "rejected"
STALE = "stale"
_OF_A_ROW = (400, 413)
_ITEMS = (
    "?filter_path=items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason"
)


class _Cause(msgspec.Struct):
    reason: str | None = None


class _Error(msgspec.Struct):
    type: str = ""
    reason: str | None = None
    caused_by: _Cause | None = None


class _Item(msgspec.Struct):
    status: int
    error: _Error | None = None


class _Answer(msgspec.Struct):
    items: list[dict[str, _Item]] = []


class BulkOutcome(NamedTuple):
    again: list[Action]
    error: RheosError | None
    """Reason why the actions in `again` must be sent again."""


class BulkSender:
    def __init__(
        self,
        connection: Connection,
        index: str,
        patience: Patience,
        count: Callable[[str, int], None],
        *,
        versioned: bool,
        skip_bad: bool,
    ) -> None:
        self._connection = connection
        self._index = index
        self._patience = patience
        self._count = count
        self._versioned = versioned
        self._skip_bad = skip_bad

    def send(self, actions: Sequence[Action]) -> None:
        """Write all actions; return when they are written or skipped. Raises InputError for a row that
        is refused, UnavailableError when the retry budget is spent, and ConfigurationError if the login
        or all writes to the index are refused."""
        left = list(actions)
        self._patience.begin()
        while left:
            try:
                left, error = self._send_once(left)
            except UnavailableError as away:
                error = away
                if len(left) == 1:
                    # A retry is pointless if the server always fails for this row, such as a too large
                    # one.
                    error.record = left[0].record
            if error is None:
                self._patience.restore()
            else:
                self._patience.spend(error)

    def _send_once(self, actions: list[Action]) -> BulkOutcome:
        body = b"".join(action.lines for action in actions)
        answer = self._connection.ask("POST", f"/{self._index}/_bulk{_ITEMS}", body)
        if answer.status in _OF_A_ROW and len(actions) > 1:
            # A single row may be the reason for the refusal of all.
            half = len(actions) // 2
            self.send(actions[:half])
            self.send(actions[half:])
            return BulkOutcome([], None)
        if answer.status == 413 and self._skip_bad:
            self._count(REJECTED, 1)
            return BulkOutcome([], None)
        if answer.status != 200:
            doing = f"the index {self._index!r} cannot be written"
            error = self._connection.error(answer, doing)
            if len(actions) == 1:
                error.record = actions[0].record
            raise error
        return self._judged(actions, self._items(answer.content, len(actions)))

    def _items(self, content: bytes, count: int) -> list[_Item]:
        try:
            items = msgspec.json.decode(content, type=_Answer).items
        except msgspec.DecodeError as error:
            raise UnavailableError(f"the server is not an OpenSearch: {error}") from None
        if len(items) != count or any(len(item) != 1 for item in items):
            raise UnavailableError(f"the server answered {len(items)} of {count} items")
        return [next(iter(item.values())) for item in items]

    def _judged(self, actions: list[Action], items: list[_Item]) -> BulkOutcome:
        again: list[Action] = []
        why: RheosError | None = None
        for action, item in zip(actions, items, strict=True):
            if item.status < 300 or (item.status == 404 and item.error is None):
                continue
            if item.status == 409 and self._versioned:
                self._count(STALE, 1)
            elif item.status == 409 or may_pass(item.status):
                again.append(action)
                why = UnavailableError(
                    f"the index {self._index!r} rejects rows at the moment: {_reason(item)}",
                    hint="the server is overloaded or out of space; the job is restarted by its "
                    "restart strategy",
                )
            elif not _is_of_its_row(item):
                raise ConfigurationError(
                    f"the index {self._index!r} cannot be written: {_reason(item)}",
                    record=action.record,
                    hint="check that the index exists and is open, and that the user may write to it",
                )
            elif self._skip_bad:
                self._count(REJECTED, 1)
            else:
                named = f"document {action.id!r}" if action.id is not None else "a document"
                raise InputError(
                    f"{named} is rejected by the index {self._index!r}: {_reason(item)}",
                    record=action.record,
                    hint="correct the row or the mapping of the index, or skip such rows with "
                    'on_error="skip"',
                )
        return BulkOutcome(again, why)


def _is_of_its_row(item: _Item) -> bool:
    """Return whether the refusal concerns this document only, so that the index may accept others."""
    kind = (item.error or _Error()).type
    return item.status in _OF_A_ROW and not kind.startswith(("index_", "cluster_"))


def _reason(item: _Item) -> str:
    error = item.error or _Error()
    parts = [f"status {item.status}", error.type, error.reason or ""]
    if error.caused_by is not None:
        parts.append(error.caused_by.reason or "")
    return ", ".join(part for part in parts if part)[:500]
