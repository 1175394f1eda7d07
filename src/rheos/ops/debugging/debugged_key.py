"""The operator to debug, and the key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import ConfigurationError
from rheos.core.operators.contract import PortType
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import HIDDEN_PREFIX, Batch
from rheos.core.protocol.hashing import plain
from rheos.core.state.keys import Key, KeyCodec


@dataclass(frozen=True)
class KeyOfOperator:
    planned: PlannedOperator
    key: Key
    """The key in the form of the operator's state; None for all rows of an operator without keys."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of the key; those of the operator's first keyed input."""
        return _keyed_port(self.planned).keys if _is_keyed(self.planned) else ()

    @property
    def values(self) -> dict[str, Any]:
        """Return the values of the key, by column."""
        parts = (self.key,) if len(self.columns) == 1 else self.key
        return dict(zip(self.columns, parts, strict=True))


def chosen(plan: PhysicalPlan, operator: str | None, key: Mapping[str, Any] | Any) -> KeyOfOperator:
    """Return the operator with that id, or the only one with that name. None: the only operator whose
    key columns fit `key`. A key of several columns is a mapping. Strings are parsed as the columns'
    types. `key` is None for all rows of a named operator without keys. Raise ConfigurationError if no
    operator fits, or several do."""
    keyed = [planned for planned in plan.operators() if _is_keyed(planned)]
    if operator is not None:
        planned = _named(plan, operator)
        if key is None and not _is_keyed(planned):
            return KeyOfOperator(planned, None)
        _check_keyed(plan, planned)
        return KeyOfOperator(planned, _key(planned, key))
    if not keyed:
        raise ConfigurationError(
            "no operator of the job is keyed, so there is no keyed state to debug",
            hint="debug a function without a key in a test: rheos.testing.Harness",
        )
    fits, misfits = [], []
    for planned in keyed:
        try:
            fits.append(KeyOfOperator(planned, _key(planned, key)))
        except ConfigurationError as error:
            misfits.append(error)
    if len(fits) == 1:
        return fits[0]
    if len(misfits) == 1 and not fits:
        raise misfits[0]
    listed = "; ".join(f"{p.id} ({p.name}) by {', '.join(_keyed_port(p).keys)}" for p in keyed)
    raise ConfigurationError(
        f"the key {key!r} fits {len(fits)} operators" if fits else f"the key {key!r} fits no operator",
        hint=f"choose one: --operator OP. Keyed operators are {listed}",
    )


def _named(plan: PhysicalPlan, wanted: str) -> PlannedOperator:
    operators = plan.operators()
    found = [planned for planned in operators if planned.id == wanted]
    found = found or [planned for planned in operators if planned.name == wanted]
    if len(found) != 1:
        listed = [p for p in found or operators if _is_keyed(p)] or operators
        raise ConfigurationError(
            f"{len(found)} operators are named {wanted!r}"
            if found
            else f"the job has no operator {wanted!r}",
            hint=f"pass the id of one: {', '.join(f'{p.id} ({p.name})' for p in listed)}",
        )
    return found[0]


def _check_keyed(plan: PhysicalPlan, planned: PlannedOperator) -> None:
    if not _is_keyed(planned):
        names = ", ".join(f"{p.id} ({p.name})" for p in plan.operators() if _is_keyed(p))
        raise ConfigurationError(
            "the operator is not keyed, so it has no keyed state",
            site=planned.site,
            operator=planned.name,
            hint=f"keyed operators are {names}" if names else "no operator of the job is keyed",
        )


def _is_keyed(planned: PlannedOperator) -> bool:
    """Return whether it is keyed by visible columns. Windows of a whole stream use a hidden one."""
    return any(_by_columns(port) for port in planned.ports)


def _by_columns(port: PortType) -> bool:
    return bool(port.keys) and not any(name.startswith(HIDDEN_PREFIX) for name in port.keys)


def _keyed_port(planned: PlannedOperator) -> PortType:
    return next(port for port in planned.ports if _by_columns(port))


def _key(planned: PlannedOperator, given: Mapping[str, Any] | Any) -> Key:
    port = _keyed_port(planned)
    codec = KeyCodec(port.schema, port.keys, port.keyed_at)
    if not isinstance(given, Mapping) and len(port.keys) == 1:
        given = {port.keys[0]: given}
    if isinstance(given, tuple) and len(given) == len(port.keys):
        given = dict(zip(port.keys, given, strict=True))
    if not isinstance(given, Mapping) or set(given) != set(port.keys):
        spelled = ",".join(f"{name}=..." for name in port.keys)
        raise ConfigurationError(
            f"{given!r} is not a key of the operator",
            site=planned.site,
            operator=planned.name,
            hint=f"it is keyed by {', '.join(port.keys)}: write --key {spelled}",
        )
    columns = [
        pa.array([_value(planned, name, given[name], kind)], kind)
        for name, kind in zip(port.keys, codec.types, strict=True)
    ]
    return codec.listed(columns)[0]


def _value(planned: PlannedOperator, name: str, given: Any, kind: pa.DataType) -> pa.Scalar:
    try:
        if isinstance(given, str):
            return pa.scalar(given).cast(kind)
        return pa.scalar(given, kind)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{given!r} is not a value of the key column {name!r}, which is {kind}",
            site=planned.site,
            operator=planned.name,
            hint="write it in the column's form: a time as 2026-01-01T12:00:00, followed by Z if "
            "the column has a time zone",
        ) from error


# --- the rows of a key ------------------------------------------------------------------------------


def rows_of_key(batch: Batch, port: PortType, key: Key) -> Batch:
    """Return the key's rows of a port; all rows of a port without keys."""
    if not _by_columns(port):
        return batch
    parts = (key,) if len(port.keys) == 1 else key
    types = KeyCodec(port.schema, port.keys, port.keyed_at).types
    for place, (name, part, kind) in enumerate(zip(port.keys, parts, types, strict=True)):
        # A row with a null in the key belongs to no key, and a downstream operator may drop it.
        batch = batch.filter(pc.is_valid(batch.column(name)))
        batch = batch.filter(same_value(plain(batch.column(name), place).cast(kind), part))
    return batch


def same_value(column: pa.Array | pa.ChunkedArray, value: Any) -> pa.Array:
    """Return in which rows the column has the value. NaN equals NaN."""
    if value != value:
        return pc.is_nan(column)
    return pc.equal(column, pa.scalar(value, column.type))


def keyed_by(planned: PlannedOperator) -> Iterator[tuple[int, PortType]]:
    """Yield the operator's keyed inputs, each with its number."""
    return ((number, port) for number, port in enumerate(planned.ports) if _by_columns(port))
