"""Size of a plan's checkpoints: what is stored, and what is written. Pure.

State in memory is stored as a full part and the deltas since. A delta has the entries that changed
since the last checkpoint. When the deltas would be as long as the full part, the next part is a full
one.

State on disk is stored as runs. A checkpoint adds a run with the entries that changed. The database
merges runs when there are too many, and the next checkpoint writes the merged run again.

So sizes vary from checkpoint to checkpoint, and the newest ones are computed one after another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, fsum
from statistics import fmean

from rheos.core.protocol.snapshots import MAX_DELTAS
from rheos.ops.planning.intervals import NOTHING, ExpectedRange, sum_of
from rheos.ops.planning.key_curves import keys_among
from rheos.ops.planning.measurement import Measurement, OperatorState
from rheos.ops.planning.state_growth import curves_of, state_after

_COMPUTED = 3 * MAX_DELTAS
"""Number of checkpoints that are computed: at least one whole cycle is in the newer half."""
_NEARLY_ALL = 0.99
"""Share of the entries of a full part that counts as all. The measured number of keys is not exact."""
USUAL_STATE_MEMORY_BYTES = 256 * 2**20
"""Memory of a slot for state on disk, if the settings specify none."""
_BUFFERS = 4
"""Ratio of this memory to a buffer of changes, which becomes a run when it is full."""
_RUNS_BEFORE_MERGE = 8
"""Number of runs at which the database merges some, as in `core.state.rocksdb.database`."""


@dataclass(frozen=True)
class CheckpointSizes:
    """Bytes of checkpoints."""

    written_bytes: float = 0.0
    """Bytes that a checkpoint writes, on average."""
    stored_bytes: float = 0.0
    """Largest size of the retained checkpoints and the one that is being written."""
    referred_bytes: float = 0.0
    """Size of a checkpoint with the parts that it shares with earlier ones, on average."""
    local_bytes: float = 0.0
    """Largest size of the runs of state on disk, while some are being merged."""
    written: ExpectedRange = NOTHING
    """Smallest and largest number of bytes that a checkpoint writes."""
    referred: ExpectedRange = NOTHING
    """Smallest and largest size of a checkpoint with the parts that it shares."""


def checkpoint_sizes(
    measurement: Measurement, rate: float, after_ms: int, slots: int = 1
) -> CheckpointSizes:
    """Return the sizes of checkpoints. Without an interval, only the final checkpoint is written.

    Args:
        measurement: Measurement of the job.
        rate: Rows per second of the sources.
        after_ms: Time for which the job has run, in ms.
        slots: Number of slots, each of which has a database if state is on disk.
    """
    each = [_of_operator(measurement, state, rate, after_ms, slots) for state in measurement.states]
    return CheckpointSizes(
        fsum(sizes.written_bytes for sizes in each),
        fsum(sizes.stored_bytes for sizes in each),
        fsum(sizes.referred_bytes for sizes in each),
        fsum(sizes.local_bytes for sizes in each),
        sum_of(sizes.written for sizes in each),
        sum_of(sizes.referred for sizes in each),
    )


@dataclass(frozen=True, eq=False)
class _Part:
    """A full part, a delta, or a run."""

    checkpoint: int
    """Number of the first checkpoint that can have it, which writes it."""
    size_bytes: float
    span_ms: int
    """Time in which its entries changed."""


def _of_operator(
    measurement: Measurement, state: OperatorState, rate: float, after_ms: int, slots: int
) -> CheckpointSizes:
    interval_ms = measurement.checkpoint_interval_ms
    if interval_ms is None:
        full = state_after(measurement, state, rate, after_ms)
        return CheckpointSizes(
            full, full, full, full, ExpectedRange(full, full), ExpectedRange(full, full)
        )
    count = min(max(1, ceil(after_ms / interval_ms)), _COMPUTED)
    buffer_bytes = slots * (measurement.state_memory_bytes or USUAL_STATE_MEMORY_BYTES) / _BUFFERS
    parts: list[_Part] = []
    newest: deque[list[_Part]] = deque(maxlen=measurement.retained_checkpoints + 1)
    written, stored, referred, local = [], [], [], []
    for number in range(count):
        at_ms = after_ms - (count - 1 - number) * interval_ms
        whole = _Part(number, state_after(measurement, state, rate, at_ms), at_ms)

        def changed(span_ms: int, whole: _Part = whole) -> _Part:
            full = whole.size_bytes
            size_bytes = min(full, _changed_bytes(measurement, state, rate, span_ms, full))
            return _Part(whole.checkpoint, size_bytes, span_ms)

        span_ms = min(interval_ms, at_ms)
        if not parts:
            parts = [whole]
        elif measurement.state_on_disk:
            runs = min(max(1, ceil(changed(span_ms).size_bytes / buffer_bytes)), _COMPUTED)
            for _ in range(runs):
                if len(parts) >= _RUNS_BEFORE_MERGE:
                    kept, merged_ms = _merged(parts)
                    merged = changed(merged_ms) if kept else whole
                    local.append(_size(parts) + merged.size_bytes)
                    parts = [*kept, merged]
                run = changed(max(1, span_ms // runs))
                size_bytes = min(run.size_bytes, buffer_bytes)
                parts = [*parts, _Part(number, size_bytes, run.span_ms)]
        else:
            parts = _next_chain(parts, changed(span_ms), whole)
        newest.append(parts)
        written.append(_size(part for part in parts if part.checkpoint == number))
        stored.append(_size({part for each in newest for part in each}))
        referred.append(_size(parts))
        local.append(referred[-1])
    later = count // 2
    return CheckpointSizes(
        fmean(written[later:]),
        max(stored[later:]),
        fmean(referred[later:]),
        max(local),
        ExpectedRange(min(written[later:]), max(written[later:])),
        ExpectedRange(min(referred[later:]), max(referred[later:])),
    )


def _size(parts: Iterable[_Part]) -> float:
    return fsum(part.size_bytes for part in parts)


def _next_chain(chain: list[_Part], delta: _Part, full: _Part) -> list[_Part]:
    """Return the parts of the next checkpoint of state in memory."""
    if delta.size_bytes <= 0:
        return chain  # An empty delta is not written.
    deltas = _size(chain[1:]) + delta.size_bytes
    if len(chain) > MAX_DELTAS or deltas >= chain[0].size_bytes * _NEARLY_ALL:
        return [full]
    return [*chain, delta]


def _merged(runs: list[_Part]) -> tuple[list[_Part], int]:
    """Return the runs that stay, and the time in which the entries of the merged ones changed. All runs
    are merged if the newer ones are as large as the oldest, otherwise all but the oldest."""
    oldest, *newer = runs
    merged, kept = (runs, []) if _size(newer) >= oldest.size_bytes else (newer, [oldest])
    return kept, sum(run.span_ms for run in merged)


def _changed_bytes(
    measurement: Measurement, state: OperatorState, rate: float, interval_ms: int, full: float
) -> float:
    """Return the size of the entries that change between two checkpoints."""
    if state.lifetime_ms is not None and state.entry_bytes:
        # Rows of windows are new, or belong to panes that are still open.
        return state_after(measurement, state, rate, interval_ms)
    curves = curves_of(measurement, state.chain)
    rows = rate * interval_ms / 1000
    if not curves or not (state.bytes_per_key or state.growth_bytes_per_row):
        return full * measurement.written_share
    keys = fsum(keys_among(curve, rows) for curve in curves)
    return state.bytes_per_key * keys + state.growth_bytes_per_row * rows
