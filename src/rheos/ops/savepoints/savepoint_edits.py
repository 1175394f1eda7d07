"""The base of a new savepoint (another savepoint, or a program), and the changes to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from rheos.core.checkpoint.savepoint import Savepoint
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.snapshots import StateKind
from rheos.ops.savepoints.column_writing import ColumnEncoder
from rheos.runtimes.state_tables.catalogue import EntryCatalogue


@dataclass(frozen=True)
class Base:
    """The base of a new savepoint."""

    directory: str
    savepoint: Savepoint
    catalogue: EntryCatalogue
    declared: Mapping[tuple[OperatorId, str], Sequence[Any]] | None = None
    """The types of values in the program, if it is known."""


@dataclass(frozen=True)
class Put:
    """Rows of one state, which replace all of it or only the state of their keys."""

    operator: OperatorId
    state: str
    rows: DataFrame
    given: pa.Schema
    whole: bool


@dataclass(frozen=True)
class PutColumns:
    """Rows of the states that an encoder makes, which replace all of these states."""

    operator: OperatorId
    rows: DataFrame
    given: pa.Schema
    encoder: ColumnEncoder


@dataclass(frozen=True)
class PutTable:
    """All rows of one small state, as its operator stores them. The rows of keyed state are sorted by
    key group."""

    operator: OperatorId
    state: str
    table: pa.Table
    kind: StateKind


@dataclass(frozen=True)
class Delete:
    """The deletion of all state of these keys."""

    operator: OperatorId
    names: Sequence[str]
    keys: DataFrame


@dataclass(frozen=True)
class Drop:
    operator: OperatorId


Change: TypeAlias = Put | PutColumns | PutTable | Delete | Drop
