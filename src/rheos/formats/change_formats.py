"""Formats of change data capture: Debezium, Canal, Maxwell and OGG (Oracle GoldenGate).

A payload is one record with a change of a row, or with several. Decoded rows have the columns of the
table, and a column `op` with the kind of change, as `stream.upserts` reads it.

    >>> import pyarrow as pa
    >>> from rheos import formats
    >>> debezium = formats.debezium_json(key="id")
    >>> schema = debezium.rows_schema(pa.schema([("id", pa.int64()), ("state", pa.string())]))
    >>> change = b'{"op": "u", "before": {"id": 1}, "after": {"id": 1, "state": "paid"}}'
    >>> debezium.decoder(schema).decode(pa.array([change])).rows.to_pylist()
    [{'id': 1, 'state': 'paid', 'op': 'update_after'}]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from rheos.core.errors import SchemaError
from rheos.core.formats.contract import Decoder, Encoder, Format, LineLayout
from rheos.core.graph.changelog import OP
from rheos.core.operators.change_rows import table_columns
from rheos.formats.avro_format import FORMAT as AVRO
from rheos.formats.avro_format import avro
from rheos.formats.change_envelopes import CANAL, DEBEZIUM, MAXWELL, OGG, ChangeEnvelope
from rheos.formats.change_records import ChangeDecoder, ChangeEncoder, record_schema
from rheos.formats.json_format import json
from rheos.formats.registration import FormatRegistration


@dataclass(frozen=True)
class ChangeFormat(Format):
    """Format of change records. A subclass declares the envelope."""

    inner: Format
    """Format of the envelope."""
    key: tuple[str, ...]

    envelope: ClassVar[ChangeEnvelope]
    encodes_changes: ClassVar[bool] = True

    @property
    def in_lines(self) -> LineLayout | None:
        return self.inner.in_lines

    def rows_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns, all nullable, and `op`. A deletion may have the key alone."""
        if OP in schema.names:
            raise SchemaError(
                f"the format {self.name} adds a column {OP!r}, and the schema has one of that name",
                hint="leave it out of the schema: the format fills it with the kind of change",
            )
        for name in self.key:
            if name not in schema.names:
                raise SchemaError(
                    f"key= names the column {name!r}, which is not in the schema",
                    hint=f"the columns are {', '.join(schema.names)}",
                )
        columns = [field.with_nullable(True) for field in schema]
        return pa.schema([*columns, pa.field(OP, pa.string())])

    def check_decodes(self, schema: pa.Schema) -> None:
        self.inner.check_decodes(self._records(schema))

    def check_encodes(self, schema: pa.Schema) -> None:
        self.inner.check_encodes(self._records(schema))

    def decoder(self, schema: pa.Schema, header: bytes | None = None) -> Decoder:
        return ChangeDecoder(schema, self.envelope, self.inner, self.key)

    def encoder(self, schema: pa.Schema) -> Encoder:
        return ChangeEncoder(schema, self.envelope, self.inner)

    def _records(self, schema: pa.Schema) -> pa.Schema:
        return record_schema(self.envelope, pa.struct(list(table_columns(schema))))


class DebeziumJson(ChangeFormat):
    name: ClassVar[str] = "debezium_json"
    envelope: ClassVar[ChangeEnvelope] = DEBEZIUM


class DebeziumAvro(ChangeFormat):
    name: ClassVar[str] = "debezium_avro_confluent"
    envelope: ClassVar[ChangeEnvelope] = DEBEZIUM


class CanalJson(ChangeFormat):
    name: ClassVar[str] = "canal_json"
    envelope: ClassVar[ChangeEnvelope] = CANAL


class MaxwellJson(ChangeFormat):
    name: ClassVar[str] = "maxwell_json"
    envelope: ClassVar[ChangeEnvelope] = MAXWELL


class OggJson(ChangeFormat):
    name: ClassVar[str] = "ogg_json"
    envelope: ClassVar[ChangeEnvelope] = OGG


def debezium_json(*, key: str | Sequence[str] = ()) -> ChangeFormat:
    """Create the format for changes that Debezium writes as JSON, with or without their schema.

    ```python
    form = rh.formats.debezium_json(key="id")
    columns = {"id": int, "state": str}
    source = rh.kafka.source("orders", brokers="localhost:9092", schema=columns, format=form)
    changed = env.from_source(source).upserts(key="id")
    ```

    Args:
        key: The columns of the table's primary key. An update that changes them becomes a deletion and
            an insertion. Without a key, an update is emitted as two rows: the previous one, which the
            record must contain, and the new one.

    Returns:
        The format, for the `format=` of a connector. Its rows have a column `op`.
    """
    return DebeziumJson(json(), _names(key))


def debezium_avro_confluent(
    *, registry: str, subject: str | None = None, key: str | Sequence[str] = ()
) -> ChangeFormat:
    """Create the format for changes that Debezium writes as Avro, with a schema registry.

    ```python
    form = rh.formats.debezium_avro_confluent(registry="http://localhost:8081", key="id")
    columns = {"id": int, "state": str}
    source = rh.kafka.source("orders", brokers="localhost:9092", schema=columns, format=form)
    ```

    Args:
        registry: The URL of the schema registry, as of `rh.formats.avro`.
        subject: The subject under which a writer registers its schema.
        key: The columns of the primary key, as of `rh.formats.debezium_json`.

    Returns:
        The format, for the `format=` of a connector. Its rows have a column `op`.
    """
    return DebeziumAvro(avro(registry=registry, subject=subject), _names(key))


def canal_json(*, key: str | Sequence[str] = ()) -> ChangeFormat:
    """Create the format for changes that Canal writes as flat JSON messages.

    A message may have several rows. Their values may be strings, which are converted to the types of
    the columns.

    ```python
    form = rh.formats.canal_json(key="id")
    source = rh.files.source("orders/", schema={"id": int, "state": str}, format=form)
    ```

    Args:
        key: The columns of the primary key, as of `rh.formats.debezium_json`.

    Returns:
        The format, for the `format=` of a connector. Its rows have a column `op`.
    """
    return CanalJson(json(), _names(key))


def maxwell_json(*, key: str | Sequence[str] = ()) -> ChangeFormat:
    """Create the format for changes that Maxwell writes as JSON, with the rows of its bootstrap.

    ```python
    form = rh.formats.maxwell_json(key="id")
    source = rh.files.source("orders/", schema={"id": int, "state": str}, format=form)
    ```

    Args:
        key: The columns of the primary key, as of `rh.formats.debezium_json`.

    Returns:
        The format, for the `format=` of a connector. Its rows have a column `op`.
    """
    return MaxwellJson(json(), _names(key))


def ogg_json(*, key: str | Sequence[str] = ()) -> ChangeFormat:
    """Create the format for changes that Oracle GoldenGate writes as JSON.

    ```python
    form = rh.formats.ogg_json(key="id")
    source = rh.files.source("orders/", schema={"id": int, "state": str}, format=form)
    ```

    Args:
        key: The columns of the primary key, as of `rh.formats.debezium_json`.

    Returns:
        The format, for the `format=` of a connector. Its rows have a column `op`.
    """
    return OggJson(json(), _names(key))


def _names(key: str | Sequence[str]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _registration(name: str, title: str, **client: Any) -> FormatRegistration:
    function = f"{__name__}:{name}"
    return FormatRegistration(name=name, title=title, function=function, docs="changes.md", **client)


DEBEZIUM_JSON = _registration("debezium_json", "changes of Debezium, as JSON")
DEBEZIUM_AVRO = _registration(
    "debezium_avro_confluent",
    "changes of Debezium, as Avro",
    requires=AVRO.requires,
    install=AVRO.install,
)
CANAL_JSON = _registration("canal_json", "changes of Canal")
MAXWELL_JSON = _registration("maxwell_json", "changes of Maxwell")
OGG_JSON = _registration("ogg_json", "changes of Oracle GoldenGate")
