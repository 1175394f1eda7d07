"""Requests of an operator for rows of an external system by key. It makes one call at a time, retries
failed calls, and does not request cached keys.

Keys that wait while a call is in progress are joined in the next call. So calls become larger if the
system is slower, and each call requests a key once.

    waiting call ──no call in progress──> in progress ──answered──> done
                                              │  ^
                                         failed  └── back-off, for up to `retry_for_us`; then the error
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.connectors.backoff import Backoff
from rheos.core.connectors.lookup import Found, LookupClient
from rheos.core.errors import InputError, RheosError, UnavailableError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ports import Clock, Completion, IoExecutor
from rheos.core.safe_strings import named_error, shown

Key: TypeAlias = tuple[Any, ...]
Numbers: TypeAlias = npt.NDArray[np.int64]

_CALL_KEYS = 8192


@dataclass(frozen=True, slots=True)
class FoundBlock:
    """Rows that one call of the lookup returned."""

    rows: Batch
    """Rows, grouped by key."""
    spans: dict[Key, tuple[int, int]]
    """For each requested key, the bounds of its rows."""
    at_us: int
    """Time of the request, by the monotonic clock."""


@dataclass(slots=True)
class Call:
    """A call of the lookup: the keys that it requests, and its result."""

    keys: dict[Key, int] = field(default_factory=dict)
    """Requested keys, each with its row number in `columns`."""
    columns: list[Batch] = field(default_factory=list)
    block: FoundBlock | None = None


class KnownRows:
    """A cache of lookup results, by key. It evicts the oldest key if there are more than `max_keys`
    keys, or if its lookup is `keep_us` old. A block is released when its last key is evicted."""

    def __init__(self, max_keys: int, keep_us: int) -> None:
        self._max_keys = max_keys
        self._keep_us = keep_us
        self._by_key: OrderedDict[Key, FoundBlock] = OrderedDict()
        """Blocks by key, the oldest first; each key with the block of its latest look-up."""

    def get(self, key: Key) -> FoundBlock | None:
        """Return the block that holds the key's rows, or None. Call `forget` first."""
        return self._by_key.get(key)

    def add(self, block: FoundBlock) -> None:
        if self._keep_us <= 0:
            return
        by_key = self._by_key
        for key in by_key.keys() & block.spans.keys():
            del by_key[key]
        by_key.update(dict.fromkeys(block.spans, block))
        for _ in range(len(by_key) - self._max_keys):
            by_key.popitem(last=False)

    def forget(self, now_us: int) -> None:
        """Evict the keys whose lookup is too old."""
        by_key = self._by_key
        while by_key and now_us - next(iter(by_key.values())).at_us >= self._keep_us:
            by_key.popitem(last=False)


class LookupCalls:
    """The calls of the lookup in one subtask. Used in the mailbox; only `LookupClient.fetch` runs
    outside of it."""

    def __init__(
        self,
        client: LookupClient,
        schema: pa.Schema,
        known: KnownRows,
        *,
        retry_for_us: int,
        clock: Clock,
        io: IoExecutor,
        count: Callable[[str, int], None],
    ) -> None:
        """Create the calls. `schema` is that of the rows that the lookup returns."""
        self._client = [client]
        """Client in a list. Code that closes the client removes it from the list."""
        self._schema = schema
        self._known = known
        self._back_off = Backoff(retry_for_us)
        self._clock = clock
        self._io = io
        self._count = count
        self._waiting: deque[Call] = deque()
        self._wanted: dict[Key, Call] = {}
        """Keys of the calls that wait."""
        self._under_way: Call | None = None
        self._completion: Completion[Found] | None = None
        """Result of the call in progress; None while the call waits for its retry."""
        self._began_us = 0
        self._again_us = 0
        self._closed = False

    def failing_ms(self) -> float:
        """Return the time in ms for which the lookup has failed; 0 if it does not fail."""
        return self._back_off.failing_for_us(self._clock.monotonic_us()) / 1000

    def want(self, keys: Sequence[Key], columns: Batch) -> list[Call]:
        """Request keys, whose columns are the rows of `columns`. Return the calls that request them."""
        calls: dict[int, Call] = {}
        new: dict[int, list[int]] = {}
        for row, key in enumerate(keys):
            call = self._wanted.get(key)
            if call is None:
                if not self._waiting or len(self._waiting[-1].keys) >= _CALL_KEYS:
                    self._waiting.append(Call())
                call = self._wanted[key] = self._waiting[-1]
                call.keys[key] = len(call.keys)
                new.setdefault(id(call), []).append(row)
            calls[id(call)] = call
        for of, rows in new.items():
            calls[of].columns.append(columns.take(pa.array(rows, pa.int32())))
        self.advance()
        return list(calls.values())

    def advance(self) -> None:
        """Process the answer of the last call, and start the waiting call. Raise the RheosError of a
        call that has failed for the last time."""
        completion = self._completion
        if completion is not None and completion.done():
            self._completion = None
            self._take(completion)
        if self._under_way is None and self._waiting:
            self._under_way = call = self._waiting.popleft()
            for key in call.keys:
                del self._wanted[key]
            call.columns = [pa.concat_batches(call.columns)]
            self._submit(call)
        elif self._under_way is not None and self.wake_after_us() == 0:
            self._count("retries", 1)
            self._submit(self._under_way)

    def wake_after_us(self) -> int | None:
        """Return the time in µs until a failed call is retried; None if no call waits for its retry."""
        if self._under_way is None or self._completion is not None:
            return None
        return max(self._again_us - self._clock.monotonic_us(), 0)

    def close(self) -> None:
        """Close the client as soon as no call is in progress."""
        self._closed = True
        if self._completion is None or self._completion.done():
            self._close_client()

    def _close_client(self) -> None:
        while self._client:  # The thread of a call that ends at this moment also closes the client.
            self._client.pop().close()

    def _submit(self, call: Call) -> None:
        self._began_us = self._clock.monotonic_us()
        self._completion = self._io.submit(partial(self._fetch, self._client[0], call.columns[0]))

    def _fetch(self, client: LookupClient, keys: Batch) -> Found:
        """Fetch the rows on the I/O executor."""
        try:
            return client.fetch(keys)
        finally:
            if self._closed:
                self._close_client()

    def _take(self, completion: Completion[Found]) -> None:
        call = self._under_way
        assert call is not None
        try:
            found = completion.result()
        except Exception as error:
            self._failed(call, error)
            return
        self._under_way = None
        self._back_off.restore()
        self._count("looked_up", len(call.keys))
        call.block = self._block(call, found)
        self._known.add(call.block)

    def _block(self, call: Call, found: Found) -> FoundBlock:
        rows, of = found.rows, np.asarray(found.of)
        if not rows.schema.equals(self._schema) or len(of) != rows.num_rows:
            raise InputError(
                f"the lookup returned {len(of)} positions for {rows.num_rows} rows of "
                f"{rows.schema}, but rows of {self._schema} are needed"
            )
        if len(of) and not 0 <= of.min() <= of.max() < len(call.keys):
            raise InputError(
                f"the lookup returned rows for other keys than the {len(call.keys)} that it received"
            )
        if len(of) and (np.diff(of) < 0).any():
            rows = rows.take(pa.array(np.argsort(of, kind="stable")))
        ends = np.cumsum(np.bincount(of.astype(np.int64), minlength=len(call.keys)))
        begins = [0, *ends[:-1].tolist()]
        return FoundBlock(
            rows,
            dict(zip(call.keys, zip(begins, ends.tolist(), strict=True), strict=True)),
            self._began_us,
        )

    def _failed(self, call: Call, error: Exception) -> None:
        first = next(iter(call.keys))
        key = shown(first[0] if len(first) == 1 else first)
        others = "" if len(call.keys) == 1 else f", and {len(call.keys) - 1} others"
        if isinstance(error, RheosError) and not isinstance(error, UnavailableError):
            error.key = error.key or key + others
            raise error
        now_us = self._clock.monotonic_us()
        wait_us = self._back_off.failed(now_us)
        if wait_us is None:
            failing_us = self._back_off.failing_for_us(now_us)
            reason = error.what if isinstance(error, RheosError) else named_error(error)
            raise UnavailableError(
                f"the lookup has been failing for {failing_us / 1000000.0:.3g} s: {reason}",
                key=key + others,
                hint="check that the system is up and responds in time; retry_for= sets how long to "
                "retry; the job is restarted by its restart strategy",
            ) from error
        self._again_us = now_us + wait_us


def spans(blocks: Sequence[tuple[FoundBlock, Key]]) -> tuple[Batch, Numbers, Numbers]:
    """Return all rows of some keys, which are passed with their blocks. Also return the first row and
    the number of rows of each key."""
    by_block: dict[int, tuple[FoundBlock, list[int]]] = {}
    for place, (block, _) in enumerate(blocks):
        by_block.setdefault(id(block), (block, []))[1].append(place)
    begins, counts = np.empty(len(blocks), np.int64), np.empty(len(blocks), np.int64)
    pieces: list[Batch] = []
    rows = 0
    for block, places in by_block.values():
        bounds = np.array([block.spans[blocks[place][1]] for place in places], np.int64)
        sizes = bounds[:, 1] - bounds[:, 0]
        firsts = np.cumsum(sizes) - sizes
        wanted = np.repeat(bounds[:, 0] - firsts, sizes) + np.arange(sizes.sum())
        pieces.append(block.rows.take(pa.array(wanted)))
        begins[places], counts[places] = rows + firsts, sizes
        rows += len(wanted)
    return pa.concat_batches(pieces), begins, counts
