"""The state of `transformWithState`, as the declared state of a Rheos function.

    ValueState   a column `value`
    ListState    `position` and `value`
    MapState     `map_key` and `value`
    timers       `timestamp_ms` and `domain`

Spark stores each value as a struct. A struct with one field becomes the field's value, unless the job
declares a dataclass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from rheos.core.errors import ConfigurationError
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.shapes import StatePurpose, StateShape, TypeShape
from rheos.core.protocol.snapshots import StateKind
from rheos.ops.migration.spark_checkpoint import SparkCheckpoint
from rheos.ops.migration.spark_state import StateOperator, state_reader
from rheos.ops.savepoints.bootstrap import NewSavepoint
from rheos.ops.savepoints.task_frames import quoted
from rheos.runtimes.state_tables.entry_layouts import EVENT_DOMAIN, PROCESSING_DOMAIN

PROCESSORS = (
    "transformWithStateExec",
    "transformWithStateInPandasExec",
    "transformWithStateInPySparkExec",
)
"""Spark's names of the operator, by language and version."""

TIMERS = "timers"
"""Name of the state with the timers of a Rheos function."""

_PURPOSES: Mapping[str, StatePurpose] = {
    "ValueState": StatePurpose.VALUE,
    "ListState": StatePurpose.LIST,
    "MapState": StatePurpose.MAP,
}


class _Variable(msgspec.Struct, frozen=True, rename="camel"):
    state_name: str
    state_variable_type: str
    ttl_enabled: bool = False


class _Properties(msgspec.Struct, frozen=True, rename="camel"):
    time_mode: str
    state_variables: list[_Variable]


@dataclass(frozen=True)
class Processor:
    """A `StatefulProcessor` of the query."""

    operator: StateOperator
    variables: Mapping[str, StatePurpose]
    domain: str | None
    """Domain of its timers; None if it registers no timers."""


def processor_of(operator: StateOperator) -> Processor:
    """Return the states of a processor. Raise ConfigurationError if one of them cannot be moved."""
    try:
        found = msgspec.json.decode((operator.properties or "").encode(), type=_Properties)
    except msgspec.MsgspecError as error:
        raise ConfigurationError(
            f"the properties of the operator cannot be read: {error}",
            hint="use the version of Spark that wrote the checkpoint",
        ) from None
    variables = {}
    timers = False
    for variable in found.state_variables:
        if variable.state_variable_type == "TimerState" or variable.state_name.startswith("$"):
            timers = True
            continue
        purpose = _PURPOSES.get(variable.state_variable_type)
        if purpose is None or variable.ttl_enabled:
            kind = "expires" if purpose is not None else f"is a {variable.state_variable_type}"
            raise ConfigurationError(
                f"state {variable.state_name!r} {kind}, which is not moved",
                hint="read it with the state data source, and set it with rh.new_savepoint",
            )
        variables[variable.state_name] = purpose
    event = found.time_mode.lower() == "eventtime"
    domain = (EVENT_DOMAIN if event else PROCESSING_DOMAIN) if timers else None
    return Processor(operator, variables, domain)


def declared_states(planned: PlannedOperator) -> dict[str, StateShape]:
    """Return the declared keyed states of a function; empty if the operator is not one."""
    purposes = set(_PURPOSES.values())
    return {
        name: shape
        for name, shape in planned.spec.states(planned.ports).items()
        if shape.kind is StateKind.KEYED and shape.holds in purposes
    }


def find_function(processor: Processor, planned: Sequence[PlannedOperator]) -> PlannedOperator:
    """Return the only function of the job that declares all states of the processor, with the same
    names and kinds. Raise ConfigurationError if no function or several do."""
    wanted = set(processor.variables.items())
    found = [
        operator
        for operator in planned
        if wanted and wanted <= {(name, s.holds) for name, s in declared_states(operator).items()}
    ]
    if len(found) == 1:
        return found[0]
    states = ", ".join(f"{name} ({purpose})" for name, purpose in sorted(wanted))
    many = "several functions" if found else "no function"
    raise ConfigurationError(
        f"the job has {many} with the states of the processor: {states or 'none'}",
        hint="declare them in one rh.KeyedProcessFunction, with the same names",
    )


def add_states(
    new: NewSavepoint,
    spark: SparkSession,
    checkpoint: SparkCheckpoint,
    processor: Processor,
    planned: PlannedOperator,
) -> NewSavepoint:
    """Return the savepoint with the states and timers of the processor.

    Raise SchemaError if a type does not match the declared one.
    """
    shapes = declared_states(planned)
    for name, purpose in sorted(processor.variables.items()):
        frame = _read(spark, checkpoint, processor, purpose, name)
        columns = [*_key_columns(frame), *_value_columns(frame, purpose, shapes[name].value)]
        new = new.with_state(planned.id, name, frame.select(*columns))
    if processor.domain is not None:
        reader = state_reader(spark, checkpoint, processor.operator)
        timers = reader.option("readRegisteredTimers", True).load(checkpoint.folder)
        at = f.col("expiration_timestamp_ms").alias("timestamp_ms")
        domain = f.lit(processor.domain).alias("domain")
        new = new.with_state(planned.id, TIMERS, timers.select(*_key_columns(timers), at, domain))
    return new


def _read(
    spark: SparkSession,
    checkpoint: SparkCheckpoint,
    processor: Processor,
    purpose: StatePurpose,
    name: str,
) -> DataFrame:
    reader = state_reader(spark, checkpoint, processor.operator).option("stateVarName", name)
    if purpose is StatePurpose.LIST:
        # Only the whole list has its order.
        reader = reader.option("flattenCollectionTypes", False)
    return reader.load(checkpoint.folder)


def _key_columns(frame: DataFrame) -> Iterator[Column]:
    key = frame.schema["key"].dataType
    assert isinstance(key, StructType)
    for name in key.names:
        yield f.col("key").getField(name).alias(name)


def _value_columns(frame: DataFrame, purpose: StatePurpose, value: TypeShape) -> Iterator[Column]:
    match purpose:
        case StatePurpose.VALUE:
            yield _unwrapped(frame, "value", value).alias("value")
        case StatePurpose.LIST:
            (name,) = (name for name in frame.columns if name not in ("key", "partition_id"))
            element = frame.schema[name].dataType.elementType
            column = f.col(quoted(name))
            if _is_single(element, value):
                column = f.transform(column, lambda each: each.getField(element.names[0]))
            yield f.posexplode(column).alias("position", "value")
        case StatePurpose.MAP:
            item, entry = value.args
            yield _unwrapped(frame, "user_map_key", item).alias("map_key")
            yield _unwrapped(frame, "user_map_value", entry).alias("value")
        case _:
            raise AssertionError(f"a processor has no state of the kind {purpose}")


def _unwrapped(frame: DataFrame, name: str, shape: TypeShape) -> Column:
    kind = frame.schema[name].dataType
    return f.col(name).getField(kind.names[0]) if _is_single(kind, shape) else f.col(name)


def _is_single(kind: object, shape: TypeShape) -> bool:
    """Return whether the struct's only field is the value itself."""
    return isinstance(kind, StructType) and len(kind) == 1 and not shape.fields
