"""Checks of a program while it is built: pure functions that raise ProgramError.

The caller adds the place in the user's code to the error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from rheos.core.aggregates import KINDS, Agg
from rheos.core.connectors import capabilities
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.aggregate_functions import AggregateFunction
from rheos.core.graph.changelog import OP
from rheos.core.graph.naming_aggregates import naming
from rheos.core.graph.nodes import MAIN, Graph, Input, Node, Spec, StreamType
from rheos.core.graph.reducing import reducing, with_exact_decimals
from rheos.core.graph.row_distribution import RowDistribution
from rheos.core.graph.types import canonical, describe, key_type
from rheos.core.graph.watermark import Watermark
from rheos.core.known_names import names_hint
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.protocol.elements import HIDDEN_PREFIX
from rheos.core.protocol.zones import unknown_zone
from rheos.core.safe_strings import shown


def unknown_column(name: str, schema: pa.Schema, where: str = "") -> SchemaError:
    """Return the error for a missing column, with similar names."""
    hint = names_hint(name, schema.names, "the columns here are")
    return SchemaError(f"unknown column {name!r}{where}", hint=hint)


def _is_pattern(name: str) -> bool:
    """Return whether Polars may read a name in an expression as something else than one column or
    field. Polars may read it as all columns, as a regular expression, or as a shorter name, because it
    ends names at a NUL."""
    return name == "*" or "\0" in name or (name.startswith("^") and name.endswith("$"))


def _names_within(type_: pa.DataType) -> Iterator[str]:
    """Yield the names of fields at any depth."""
    for field in [type_.field(i) for i in range(type_.num_fields)]:
        if pa.types.is_struct(type_):
            yield field.name
        yield from _names_within(field.type)


def check_columns(schema: pa.Schema) -> None:
    """Check that column names are unique, that none is reserved for hidden columns or a pattern, and
    that the zones of times are known."""
    for field in schema:
        zone = unknown_zone(field.type)
        if zone is not None:
            raise SchemaError(
                f"column {field.name!r} has times in the zone {zone!r}, which expressions do "
                "not support",
                hint='declare it in UTC, pa.timestamp("us", "UTC"), which holds the same instants, or '
                'in a named zone, such as "Europe/Berlin"',
            )
    seen: set[str] = set()
    for field in schema:
        name = field.name
        if name in seen:
            raise SchemaError(f"two columns are named {name!r}", hint="rename one of them")
        seen.add(name)
        wrong = "" if not name else next(filter(_is_pattern, [name, *_names_within(field.type)]), None)
        if wrong is not None:
            raise SchemaError(
                f"a column or field cannot have the name {wrong!r}",
                hint="expressions would not find it: a name must not be empty, '*', or between '^' "
                "and '$', or contain NUL; rename it",
            )
        if name.startswith(HIDDEN_PREFIX):
            raise SchemaError(
                f"a column cannot have the name {name!r}",
                hint=f"names that begin with {HIDDEN_PREFIX!r} are reserved for Rheos: rename the "
                "column",
            )


def check_watermark(schema: pa.Schema, watermark: Watermark) -> None:
    """Check that the event-time column exists and can hold times, and that the durations are valid."""
    if watermark.on is None:
        return
    if watermark.on not in schema.names:
        raise unknown_column(watermark.on, schema, " for the watermark")
    watermark.column.check(schema, "the event-time column")
    if watermark.bound_ms < 0:
        raise ProgramError(f"the bound of a watermark must not be negative: {watermark.bound!r}")
    idle_ms = watermark.idle_after_ms
    if idle_ms is not None and idle_ms <= 0:
        raise ProgramError(f"idle_after must be greater than 0, not {watermark.idle_after!r}")
    if watermark.max_ahead_ms is not None and watermark.max_ahead_ms <= 0:
        raise ProgramError(f"max_ahead must be greater than 0, not {watermark.max_ahead!r}")
    if watermark.max_drift_ms is None:
        return
    if watermark.max_drift_ms <= 0:
        raise ProgramError(f"max_drift must be greater than 0, not {watermark.max_drift!r}")
    if idle_ms is None:
        raise ProgramError(
            "max_drift needs idle_after: otherwise one split without rows would pause all "
            "others forever",
            hint='write Watermark.bounded_out_of_orderness("5s", on="at", max_drift="1m", '
            'idle_after="30s")',
        )


def check_inputs(inputs: Sequence[Input], types: Sequence[StreamType]) -> None:
    """Check that every input has only one kind of distribution, and that all keyed inputs have the same
    key types."""
    keyed = [(input.keys, type.schema) for input, type in zip(inputs, types, strict=True) if input.keys]
    for input in inputs:
        ways = bool(input.keys), input.broadcast, input.distribution is not None
        assert sum(ways) <= 1, "keyed, broadcast, or repartitioned"
    if len(keyed) < 2:
        return
    (first, schema), *others = keyed
    kinds = [key_type(schema.field(key).type) for key in first]
    for keys, schema in others:
        found = [key_type(schema.field(key).type) for key in keys]
        if found != kinds:
            raise SchemaError(
                f"the inputs have keys of different types: {_spell_keys(first, kinds)}, but "
                f"{_spell_keys(keys, found)}",
                hint="keys must have the same type to find the same state: cast one before "
                "key_by(), as in .with_columns(user=col('user').cast(pl.Int64))",
            )


def _spell_keys(keys: Sequence[str], kinds: Sequence[str]) -> str:
    return "(" + ", ".join(f"{key}: {kind}" for key, kind in zip(keys, kinds, strict=True)) + ")"


def check_changes(spec: Spec, inputs: Sequence[Input], types: Sequence[StreamType]) -> None:
    """Check that the operator accepts its changelog inputs, and that changes keep their order."""
    changes = None
    for input, type in zip(inputs, types, strict=True):
        if type.changes is not None:
            changes = type.changes
            if (
                not (
                    input.keys
                    or input.distribution in (None, RowDistribution.FORWARD, RowDistribution.GLOBAL)
                )
                or input.broadcast
            ):
                raise ProgramError(
                    f"the rows are {changes.describe()}, and repartitioning them would lose the "
                    "order of the changes of a row",
                    hint="repartition the rows before they become changes, or treat these as plain "
                    "rows: .as_rows()",
                )
    if changes is None:
        return
    if spec.takes_changes:
        return
    raise ProgramError(
        f"the operator takes plain rows, but these are {changes.describe()}: some of them "
        "delete others",
        hint="write .as_rows() before it, to treat them as plain rows with the kind of change in "
        f"the column {OP!r}; or .key_by(...).table(...) to aggregate the current rows",
    )


def check_keys(columns: Sequence[Any], schema: pa.Schema) -> None:
    """Check that there is at least one key, that none repeats, and that each is a column."""
    if not columns:
        raise ProgramError("key_by() needs a column", hint='write key_by("user")')
    for column in columns:
        if not isinstance(column, str):
            hint = "compute the key first: .with_columns(k=...).key_by('k')"
            if isinstance(column, pl.Expr) and column.meta.is_column():
                hint = f'write .key_by("{column.meta.output_name()}")'
            elif isinstance(column, list | tuple):
                hint = f"pass each column as an argument: .key_by({', '.join(map(repr, column))})"
            raise ProgramError(f"key_by() takes column names, not {shown(column)}", hint=hint)
        if column not in schema.names:
            raise unknown_column(column, schema, " in key_by()")
    if len(set(columns)) < len(columns):
        raise ProgramError(f"a key column is repeated in key_by({', '.join(map(repr, columns))})")


def check_event_time(type: StreamType, what: str) -> None:
    """Check that the stream has event time, which `what` needs."""
    if not type.event_time:
        raise ProgramError(
            f"{what} needs event time, but this stream has no event time",
            hint="set watermark= on the source: env.from_source(source, "
            'watermark=rh.Watermark.bounded_out_of_orderness("5s", on="the time column"))',
        )
    if type.time_changed is not None:
        raise ProgramError(
            f"{what} would use the old event time of the rows: {type.time_changed}",
            hint="to use the new times, write "
            ".with_event_time(rh.Watermark.bounded_out_of_orderness(...)) after it; to use the "
            "old ones, rename the computed column",
        )


def keeps_splits(port: Input, node: Callable[[int], Node]) -> bool:
    """Return whether the rows at a port are in the order of their source's splits.

    Raises ProgramError if they are, but their source allows no other event time.
    """
    while True:
        at = node(port.node)
        if port.broadcast or port.distribution not in (None, RowDistribution.FORWARD):
            return False
        source = at.spec.reads_from
        if source is not None and port.tag == MAIN:
            if not capabilities.allows_event_time(source):
                raise ProgramError(
                    f"event time is assigned after {at.name!r}, whose splits are aligned only by the "
                    f"watermark set where it is read",
                    hint="compute the time in Spark, df.withColumn(...), and set the watermark where "
                    "the stream is read: env.from_stream(df, watermark=...)",
                )
            return True
        if not at.spec.keeps_splits:
            return False
        (port,) = at.inputs


def check_time_of_results(type: StreamType, watermark: Watermark, name: str) -> None:
    """Check that rows of the operator `name`, in no order of splits, may get another event time."""
    if not type.event_time:
        raise ProgramError(
            f"here the rows of {name!r} are no longer in the order of their source, and have no event "
            "time that would bound a new one",
            hint="write with_event_time(...) directly after the source, before key_by(), union(), "
            "rebalance() and similar methods; or set watermark= on the source",
        )
    asked = {
        "punctuated": watermark.when,
        "generator": watermark.generated_by,
        "idle_after": watermark.idle_after,
    }
    for what, value in asked.items():
        if value is not None:
            raise ProgramError(
                f"{what} needs the rows of a source in their order, but these are the rows of {name!r}",
                hint='write rh.Watermark.bounded_out_of_orderness("1m", on="at"): a new time may be at '
                "most that long before the event time that the row has",
            )


def lateness_ms(duration: Duration) -> int:
    """Return an allowed lateness in ms. Raise ProgramError for a negative one."""
    lateness = duration_ms(duration)
    if lateness < 0:
        raise ProgramError(f"the allowed lateness must not be negative: {duration!r}")
    return lateness


def check_aggregates(aggregates: Mapping[str, object], example: str) -> dict[str, Agg]:
    """Check that there is at least one aggregate, and that each is valid. Return them."""
    if not aggregates:
        raise ProgramError("no aggregate was passed", hint=f"write {example}")
    checked: dict[str, Agg] = {}
    for name, agg in aggregates.items():
        if isinstance(agg, pl.Expr):
            agg = reducing(agg)
        if not isinstance(agg, Agg):
            hint = naming({name: agg}, example) if isinstance(agg, str) else f"write {example}"
            if isinstance(agg, AggregateFunction):
                hint = (
                    f"pass it without a name: .window(...).aggregate({type(agg).__name__}()); its "
                    "get_result returns a dataclass with the columns"
                )
            raise ProgramError(f"{name}={shown(agg)} is not an aggregate", hint=hint)
        if KINDS.get(agg.kind) is not type(agg):
            raise ProgramError(
                f"{name}={agg} is of an unregistered kind, whose state could not be restored",
                hint="register the kind in rheos.core.aggregates.KINDS; registered are "
                f"{', '.join(KINDS)}",
            )
        checked[name] = agg
    return checked


def aggregate_fields(aggregates: Mapping[str, Agg], schema: pa.Schema) -> list[pa.Field]:
    """Return the columns of the results. Raise SchemaError for unknown columns and wrong types."""
    for agg in aggregates.values():
        for column in agg.columns:
            if column not in schema.names and not column.startswith(HIDDEN_PREFIX):
                where = f"{agg.kind}()" if agg.column == column else str(agg)
                raise unknown_column(column, schema, f" in {where}")
    return [
        pa.field(name, canonical(with_exact_decimals(agg, schema).result_type(schema)))
        for name, agg in aggregates.items()
    ]


def check_running(aggregates: Mapping[str, Agg]) -> None:
    """Check that each aggregate can be updated row by row."""
    for name, agg in aggregates.items():
        if not agg.can_run():
            raise ProgramError(
                f"{name}={agg.kind}() cannot be computed as a running aggregate, because its "
                "state has no bound",
                hint=(
                    "use it over windows: .window(rh.Tumbling(...)).aggregate(...); running() accepts "
                )
                + ", ".join(name for name, kind in KINDS.items() if kind.can_run()),
            )


def check_union(types: Sequence[tuple[str, StreamType]]) -> None:
    """Check that all inputs of a union have the same columns, in the same order, and that all or none
    have event time."""
    (first, of_first), *others = types
    for name, other in others:
        difference = _difference(first, of_first.schema, name, other.schema)
        if difference:
            raise SchemaError(
                f"cannot unite {first!r} and {name!r}: {difference}",
                hint=f"select the same columns on both with .select(...)\n    {first}: "
                f"{describe(of_first.schema)}\n    {name}: {describe(other.schema)}",
            )
        if of_first.changes != other.changes:
            descriptions = [
                f"{name!r} has {'plain rows' if changes is None else changes.describe()}"
                for name, changes in ((first, of_first.changes), (name, other.changes))
            ]
            raise ProgramError(
                f"cannot unite {first!r} and {name!r}: {descriptions[0]}, and {descriptions[1]}",
                hint="turn both into plain rows: .as_rows()",
            )
        if of_first.event_time != other.event_time:
            timed, bare = (first, name) if of_first.event_time else (name, first)
            raise ProgramError(
                f"cannot unite {first!r} and {name!r}: {timed!r} has event time, but {bare!r} does not",
                hint=f"set watermark= on the source of {bare!r}, too",
            )


def _difference(first: str, a: pa.Schema, second: str, b: pa.Schema) -> str | None:
    for mine, owner, other in ((a, first, b), (b, second, a)):
        only = [name for name in mine.names if name not in other.names]
        if only:
            return f"only {owner!r} has {', '.join(map(repr, only))}"
    for name in a.names:
        if a.field(name).type != b.field(name).type:
            return (
                f"column {name!r} is {a.field(name).type} in {first!r} "
                f"and {b.field(name).type} in {second!r}"
            )
    return "their columns are in different orders" if a.names != b.names else None


def check_uid(uid: str, node: int, nodes: Iterable[Node]) -> None:
    """Check that no other operator of the program has the uid."""
    if not uid or not isinstance(uid, str):
        raise ProgramError(f"a uid must be a non-empty string, not {uid!r}")
    for other in nodes:
        if other.uid == uid and other.id != node:
            raise ProgramError(
                f"two operators have the uid {uid!r}: this one, and {other.name!r} at {other.site}",
                hint="state is matched to its operator by uid, so give each its own",
            )


def check_width(node: Node | None, parallelism: int) -> int:
    """Check the parallelism of one operator, and return it. Raise ProgramError."""
    if not isinstance(parallelism, int) or isinstance(parallelism, bool) or parallelism < 1:
        raise ProgramError(f"parallelism must be an integer of at least 1, not {parallelism!r}")
    if node is not None and node.spec.is_union:
        raise ProgramError(
            "a union is not an operator: its readers read its inputs directly",
            hint="set the parallelism of the operator after it",
        )
    return parallelism


def check_parallelism(parallelism: int, max_parallelism: int, most: int) -> None:
    """Check that 1 <= parallelism <= max_parallelism <= most."""
    for name, value in (("parallelism", parallelism), ("max_parallelism", max_parallelism)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ProgramError(f"{name} must be a whole number of at least 1, not {value!r}")
    if max_parallelism > most:
        raise ProgramError(f"max_parallelism must be at most {most}, not {max_parallelism}")
    if parallelism > max_parallelism:
        raise ProgramError(
            f"parallelism {parallelism} is greater than max_parallelism {max_parallelism}",
            hint="raise max_parallelism; it is the number of key groups, and cannot change once a "
            "job has state",
        )


def live_nodes(graph: Graph) -> frozenset[int]:
    """Return the ids of the sinks and of all nodes upstream of a sink."""
    by_id = {node.id: node for node in graph.nodes}
    found = [node.id for node in graph.nodes if node.spec.writes_to is not None]
    live: set[int] = set()
    while found:
        id = found.pop()
        if id not in live:
            live.add(id)
            found += (port.node for port in by_id[id].inputs)
    return frozenset(live)


def check_graph(graph: Graph) -> None:
    """Check the program as a whole: it has a sink, and its uids are unique."""
    if not any(node.spec.writes_to is not None for node in graph.nodes):
        raise ProgramError(
            "the program has no sinks, so it would produce nothing",
            hint="end a stream with .sink_to(...), .print() or .collect(...)",
        )
    for node in graph.nodes:
        if node.uid is not None:
            try:
                check_uid(node.uid, node.id, graph.nodes)
            except ProgramError as error:
                raise error.located(site=node.site, operator=node.name) from None


def unbounded_sources(graph: Graph) -> list[Node]:
    """Return the unbounded sources that the program reads."""
    live = live_nodes(graph)
    return [
        node
        for node in graph.nodes
        if node.id in live and (source := node.spec.reads_from) is not None and not source.bounded
    ]


def ingesting_sources(graph: Graph) -> list[Node]:
    """Return the sources with ingestion time that the program reads."""
    live = live_nodes(graph)
    return [
        node
        for node in graph.nodes
        if node.id in live
        and node.spec.reads_from is not None
        and (watermark := node.spec.stamps) is not None
        and watermark.on is None
    ]


def loop_heads(graph: Graph) -> list[Node]:
    """Return the heads of loops that the program reads."""
    live = live_nodes(graph)
    return [node for node in graph.nodes if node.id in live and any(of.feedback for of in node.inputs)]
