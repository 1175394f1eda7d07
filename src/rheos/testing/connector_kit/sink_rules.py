"""The rules that every sink must follow."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from tempfile import TemporaryDirectory
from typing import TypeAlias

import pyarrow as pa

from rheos.core.errors import RheosError
from rheos.core.protocol.ids import CheckpointId
from rheos.testing.connector_kit.column_types import COLUMNS
from rheos.testing.connector_kit.rules import checking
from rheos.testing.connector_kit.sink_capability_rules import DECLARES
from rheos.testing.connector_kit.target import MakeSink, SinkTarget

SENT = "a sink can be sent to a worker"
BEGUN = "a new target can be read, and is empty"
ARRIVES = "rows become visible when their checkpoint is committed, each once"
HIDDEN = "no row is visible before its commit"
AGAIN = "committing again does nothing"
EMPTY = "an epoch without rows changes nothing"
SIDE_BY_SIDE = "subtasks write in parallel"
OUTLIVES = "prepared rows outlive their writer"
DROPPED = "closing a writer drops rows that were not prepared"
KEPT = "abort_stale removes rows staged by earlier attempts, except those to be kept"
OTHERS = "abort_stale does not touch other jobs and later attempts"
FENCED = "a zombie changes nothing after a newer attempt has started"
TYPES = "rows of all types that validate accepts arrive"

C1, C2, C3 = CheckpointId(1), CheckpointId(2), CheckpointId(3)
_ROWS = pa.table(
    {
        "n": pa.array(range(8), pa.int64()),
        "text": ["one", "two words", "", 'a "quoted" one', "two\nlines", "é 語 🙂", " spaces ", None],
    }
)


def check_sink(make: MakeSink, *, rows: pa.Table = _ROWS) -> tuple[str, ...]:
    """Check a sink against its contract, which `help(rh.connectors)` describes.

    A sink without a committer delivers at least once. It is checked only for what it can guarantee:
    that the rows of a prepared checkpoint exist.

    ```python
    def make(name, schema):
        table = testing.MemoryTable()
        return testing.MemorySink(table), lambda: table.table(schema)

    testing.check_sink(make)
    ```

    Args:
        make: Receives a name and the schema of the rows. It returns a sink to a new, empty target of
            that name, and a function that returns the rows that a reader of the target sees now: dicts
            or a pyarrow Table, in any order. It is called once for each rule.
        rows: At least four rows that the sink can write. By default a whole number and a string.

    Returns:
        The types that the sink supports in addition to those of `rows`: a column of each has arrived,
        with nulls.

    Raises:
        BrokenRuleError: The sink breaks a rule. The message has the rule and the place.
    """
    assert rows.num_rows >= 4, "check_sink needs at least four rows"
    quarter = rows.num_rows // 4
    cuts = [rows.slice(n * quarter, quarter if n < 3 else None) for n in range(4)]
    names = count(1)
    with TemporaryDirectory() as folder:

        def target(rule: str, schema: pa.Schema = rows.schema) -> SinkTarget:
            return SinkTarget(make, f"kit-{next(names)}", schema, folder, rule)

        with checking(SENT):
            first = target(SENT)
            first.check_is_sent()
        rules = {**_ANY_SINK, **(_TWO_PHASES if first.has_committer() else {})}
        for rule, check in rules.items():
            with checking(rule):
                check(target(rule), cuts)
        with checking(TYPES):
            return _takes_types(target, rows)


_Cuts: TypeAlias = Sequence[pa.Table]


# --- any sink ---------------------------------------------------------------------------------------


def _is_begun(target: SinkTarget, cuts: _Cuts) -> None:
    target.begin_again()
    target.sees(when="begin")


def _declares(target: SinkTarget, cuts: _Cuts) -> None:
    target.check_declared()


def _arrives(target: SinkTarget, cuts: _Cuts) -> None:
    a, b, c, _ = cuts
    writer = target.open()
    target.write(writer, a)
    target.write(writer, b)
    target.commit(writer.prepare(C1), writer)
    target.sees(a, b, when="the first checkpoint")
    target.write(writer, c)
    target.commit(writer.prepare(C2), writer)
    target.sees(a, b, c, when="the second checkpoint")
    writer.close()
    target.sees(a, b, c, when="close")


def _is_empty(target: SinkTarget, cuts: _Cuts) -> None:
    writer = target.open()
    target.commit(writer.prepare(C1), writer)
    target.sees(when="an epoch without rows")
    target.write(writer, cuts[0])
    target.commit(writer.prepare(C2), writer)
    target.commit(writer.prepare(C3), writer)
    writer.close()
    target.sees(cuts[0], when="an epoch with rows between two without")


def _side_by_side(target: SinkTarget, cuts: _Cuts) -> None:
    writers = [target.open(subtask=subtask) for subtask in range(3)]
    for writer, rows in zip(writers, cuts, strict=False):
        target.write(writer, rows)
    staged = [each for writer in writers for each in writer.prepare(C1)]
    target.commit(staged)
    for writer in writers:
        writer.close()
    target.sees(*cuts[:3], when="one commit of rows prepared by three subtasks")


_ANY_SINK: Mapping[str, Callable[[SinkTarget, _Cuts], None]] = {
    BEGUN: _is_begun,
    DECLARES: _declares,
    ARRIVES: _arrives,
    EMPTY: _is_empty,
    SIDE_BY_SIDE: _side_by_side,
}


# --- sinks with two phases --------------------------------------------------------------------------


def _is_hidden(target: SinkTarget, cuts: _Cuts) -> None:
    a, b, *_ = cuts
    writer = target.open()
    target.write(writer, a)
    target.sees(when="write")
    staged = writer.prepare(C1)
    target.sees(when="prepare")
    target.commit(staged, writer)
    target.write(writer, b)
    writer.prepare(C2)
    target.sees(a, when="the commit of one checkpoint, and prepare of the next")
    writer.close()
    target.sees(a, when="close")


def _try_again(target: SinkTarget, cuts: _Cuts) -> None:
    a, b, *_ = cuts
    writer = target.open()
    target.write(writer, a)
    first = writer.prepare(C1)
    target.commit(first, writer)
    target.commit(first, writer)
    target.sees(a, when="a checkpoint that is committed twice by the same committer")
    target.commit(first)
    target.sees(a, when="a checkpoint that is committed again by another committer")
    target.write(writer, b)
    both = [*first, *writer.prepare(C2)]
    target.commit(both)
    target.commit(both)
    target.sees(a, b, when="two checkpoints, of which the first was committed before")
    writer.close()


def _outlives(target: SinkTarget, cuts: _Cuts) -> None:
    writer = target.open()
    target.write(writer, cuts[0])
    staged = writer.prepare(C1)
    writer.close()
    target.commit(staged)
    target.sees(cuts[0], when="a commit after the writer's close")


def _is_dropped(target: SinkTarget, cuts: _Cuts) -> None:
    a, b, *_ = cuts
    writer = target.open()
    target.write(writer, a)
    staged = writer.prepare(C1)
    target.write(writer, b)
    writer.close()
    target.sees(when="close")
    target.commit(staged)
    target.sees(a, when="a commit of rows prepared before")


def _is_kept(target: SinkTarget, cuts: _Cuts) -> None:
    a, b, c, d = cuts
    writer = target.open(attempt=1)
    target.write(writer, a)
    logged = writer.prepare(C1)
    target.write(writer, b)
    writer.prepare(C2)  # The log never had it.
    target.write(writer, c)
    target.abort_stale(2, logged)
    target.sees(when="abort_stale")
    target.commit(logged)
    target.sees(a, when="a commit of the kept rows")
    target.abort_stale(2, logged)
    target.sees(a, when="abort_stale after the commit of the kept rows")
    again = target.open(attempt=2)
    target.write(again, d)
    target.commit(again.prepare(C3), again)
    again.close()
    target.sees(a, d, when="the next attempt's first checkpoint")


def _leaves_others(target: SinkTarget, cuts: _Cuts) -> None:
    a, b, *_ = cuts
    other = target.open(job="another job")
    target.write(other, a)
    others = other.prepare(C1)
    later = target.open(attempt=3)
    target.write(later, b)
    laters = later.prepare(C1)
    target.abort_stale(3, [])
    target.commit(others, other)
    target.sees(a, when="a commit of another job's rows")
    target.commit(laters, later)
    target.sees(a, b, when="a commit of the attempt before which all rows were aborted")
    other.close()
    later.close()


def _is_fenced(target: SinkTarget, cuts: _Cuts) -> None:
    a, b, c, _ = cuts
    zombie = target.open(attempt=1)
    target.write(zombie, a)
    logged = zombie.prepare(C1)
    target.write(zombie, b)
    # The recovery, while the process of the first attempt is still there.
    target.commit(logged)
    target.abort_stale(2, logged)
    writer = target.open(attempt=2)
    target.write(writer, b)
    staged = writer.prepare(C2)
    with contextlib.suppress(Exception):  # To be refused is as good.
        target.write(zombie, c)
        zombie.prepare(C2)
    target.sees(a, when="a zombie's prepare")
    with contextlib.suppress(Exception):
        target.commit(logged, zombie)
    with contextlib.suppress(Exception):
        zombie.close()
    target.sees(a, when="a zombie's repeated commit, and its close")
    target.commit(staged, writer)
    target.sees(a, b, when="the commit of the newer attempt")
    writer.close()
    target.abort_stale(3, staged)
    target.sees(a, b, when="the next recovery")


_TWO_PHASES: Mapping[str, Callable[[SinkTarget, _Cuts], None]] = {
    HIDDEN: _is_hidden,
    AGAIN: _try_again,
    OUTLIVES: _outlives,
    DROPPED: _is_dropped,
    KEPT: _is_kept,
    OTHERS: _leaves_others,
    FENCED: _is_fenced,
}


# --- types ------------------------------------------------------------------------------------------


def _takes_types(target: Callable[..., SinkTarget], rows: pa.Table) -> tuple[str, ...]:
    """Send columns of all types that the sink accepts, and those of the test's rows: all arrive
    together."""
    taken: dict[str, pa.Array] = {}
    probe = target(TYPES)
    for name, values in COLUMNS.items():
        schema = rows.schema.append(pa.field(f"{name}_column", values.type))
        with contextlib.suppress(RheosError):
            probe.sink.validate(schema)
            taken[name] = values
    if not taken:
        return ()
    length = min(rows.num_rows, *(len(values) for values in taken.values()))
    table = rows.slice(0, length)
    for name, values in taken.items():
        table = table.append_column(f"{name}_column", values.slice(0, length))
    aimed = target(TYPES, table.schema)
    writer = aimed.open()
    aimed.write(writer, table)
    aimed.commit(writer.prepare(C1), writer)
    writer.close()
    aimed.sees(table, when=f"rows with columns of {', '.join(taken)}")
    return tuple(taken)
