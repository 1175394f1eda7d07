"""The readings that a slot reports about once a second, in addition to the counts of its operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from rheos.core.metrics import declarations as f
from rheos.core.operators.contract import Operator
from rheos.core.operators.source import SourceOperator
from rheos.core.protocol.readings import Reading
from rheos.core.task.chain import ChainRunner
from rheos.core.task.commits import Committing
from rheos.core.task.traffic import SpentTime

ProcessReadings = Callable[[], list[Reading]]
"""Function that returns the readings of the process: memory, processor time, garbage collection."""


def slot_readings(
    chains: Iterable[tuple[ChainRunner, SpentTime]], committing: Committing, now_ms: int
) -> list[Reading]:
    found: list[Reading] = []
    for chain, spent in chains:
        id = (str(chain.chain.id),)
        found += [
            Reading(f.BUSY.name, id, spent.busy_us / 1000),
            Reading(f.BLOCKED.name, id, spent.blocked_us / 1000),
            Reading(f.IDLE.name, id, spent.idle_us / 1000),
        ]
        found += _edges(chain)
        found += chain.latency.readings()
        for planned in chain.chain.operators:
            found += _operator(str(planned.id), chain.operator(planned.id), now_ms)
    for operator, sink in committing.sinks.items():
        at = (str(operator),)
        found += [
            Reading(f.COMMITS.name, at, sink.commits),
            Reading(f.COMMIT_DURATION.name, at, sink.took_ms.value),
            Reading(f.EPOCHS_WAITING.name, at, sink.waiting()),
            Reading(f.SINCE_PUBLISHED.name, at, sink.since_published_ms()),
            Reading(f.UNPUBLISHED.name, at, sink.unpublished_ms()),
        ]
    return found


def _edges(chain: ChainRunner) -> Iterator[Reading]:
    for edge, sent in chain.sending():
        at = (str(edge),)
        yield Reading(f.SENT_ROWS.name, at, sent.traffic.rows)
        yield Reading(f.SENT_BYTES.name, at, sent.traffic.size_bytes)
        yield Reading(f.SENT_BATCHES.name, at, sent.traffic.batches)
        yield Reading(f.BUFFERED_ROWS.name, at, sent.buffered_rows)
        yield Reading(f.CREDITS_USED.name, at, sent.credits_used)
    for edge, came, waiting in chain.receiving():
        at = (str(edge),)
        yield Reading(f.RECEIVED_ROWS.name, at, came.rows)
        yield Reading(f.RECEIVED_BYTES.name, at, came.size_bytes)
        yield Reading(f.QUEUED_BATCHES.name, at, waiting)


def _operator(id: str, operator: Operator, now_ms: int) -> Iterator[Reading]:
    away_ms = operator.away_ms()
    if away_ms:
        yield Reading(f.SERVER_AWAY.name, (f"{operator.ctx.name} ({operator.ctx.site})",), away_ms)
    keys = operator.keys_held()
    if keys is not None:
        yield Reading(f.KEYS.name, (id,), keys)
    largest = max(operator.ctx.limits, key=lambda limit: limit.largest, default=None)
    if largest is not None and largest.largest:
        yield Reading(f.LARGEST_KEY.name, (id, largest.key), largest.largest)
    if not isinstance(operator, SourceOperator):
        return
    progress = operator.progress(now_ms)
    yield Reading(f.OPEN_SPLITS.name, (id,), progress.open)
    yield Reading(f.WAITING_SPLITS.name, (id,), progress.waiting)
    quiet_ms = operator.pauses.quiet_ms(operator.ctx.clock.monotonic_us())
    if quiet_ms is not None:
        yield Reading(f.SINCE_RECORD.name, (id,), quiet_ms)
        yield Reading(f.LONGEST_PAUSE.name, (id,), operator.pauses.longest_ms)
    if progress.lag_rows is not None:
        yield Reading(f.SOURCE_LAG_ROWS.name, (id,), progress.lag_rows)
    if progress.lag_ms is not None:
        yield Reading(f.SOURCE_LAG.name, (id,), progress.lag_ms)
    for split in progress.splits:
        if split.watermark_ms is not None:
            yield Reading(f.SPLIT_WATERMARK.name, (id, split.id), split.watermark_ms)
        if split.stands_ms is not None:
            yield Reading(f.SPLIT_STANDS.name, (id, split.id), split.stands_ms)
            yield Reading(f.SPLIT_IDLE.name, (id, split.id), int(split.idle))
        if split.lag_rows is not None:
            yield Reading(f.SPLIT_LAG_ROWS.name, (id, split.id), split.lag_rows)
