"""Avro: a payload is one record, bare or preceded by the id of its schema in a registry.

Payloads are decoded with the schema with which they were written. If `schema` and a registry are
passed, records are then resolved to `schema` by Avro's rules: names, aliases, defaults, wider numbers.

    >>> import pyarrow as pa
    >>> from rheos import formats
    >>> fields = [{"name": "n", "type": "long"}]
    >>> avro = formats.avro({"type": "record", "name": "R", "fields": fields})
    >>> decoded = avro.decoder(avro.own_schema()).decode(pa.array([b"\\x0e", b""]))
    >>> decoded.rows.to_pylist(), decoded.bad[0].error
    ([{'n': 7}], 'it is not a record of its Avro schema: EOFError')
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.formats.contract import Decoded, Decoder, Encoder, Format, check_any_column
from rheos.core.protocol.columns import TypeMismatch, column_of
from rheos.core.protocol.elements import Batch
from rheos.core.safe_strings import named_error
from rheos.core.site import located_at_call
from rheos.formats.avro_bounds import UnfitSchemaError
from rheos.formats.avro_fit import check_read, check_written
from rheos.formats.avro_schemas import FORMAT as FORMAT
from rheos.formats.avro_schemas import ParsedSchema, arrow_of, avro_of, check_record, fastavro, parsed
from rheos.formats.bad_rows import RowsError
from rheos.formats.confluent import (
    WITH_A_REGISTRY,
    check_has_subject,
    check_subject,
    id_before,
    registry_at,
    schema_prefix,
)
from rheos.formats.records import decoded_records, records_of

if TYPE_CHECKING:
    from rheos.formats.schema_registry import SchemaRegistry


@located_at_call
def avro(
    schema: str | Mapping[str, Any] | None = None,
    *,
    registry: str | None = None,
    subject: str | None = None,
) -> AvroFormat:
    """Create the format for Avro: a payload is one record.

    ```python
    form = rh.formats.avro(registry="http://localhost:8081", subject="orders-value")
    events.sink_to(rh.kafka.sink("orders", brokers="localhost:9092", format=form))
    ```

    Args:
        schema: An Avro schema, as a JSON string or a dict. Without a registry, payloads are written and
            read by it. With a registry, payloads are resolved to it when they are read; by default they
            are read by the schema they were written with, and columns are found by name. A writer
            without a schema derives one from the columns of its rows.
        registry: The URL of a schema registry, with a login if it needs one
            ("https://user:password@host"). Payloads then begin with the id of their schema, as
            Confluent's serializers write them.
        subject: The subject under which a writer registers its schema, such as "orders-value".

    Returns:
        The format, for the `format=` of a connector.

    Raises:
        ProgramError: The schema is invalid, or both `schema` and `registry` are missing.
    """
    fastavro()
    text = schema if schema is None or isinstance(schema, str) else json.dumps(schema)
    if text is None and registry is None:
        raise ProgramError(
            "plain Avro payloads do not contain their schema",
            hint="pass the schema, or registry= with its URL",
        )
    check_subject(registry, subject)
    if text is not None:
        _parse_user_schema(text)
    return AvroFormat(text, registry, subject)


def _parse_user_schema(text: str) -> Any:
    """Return the user's schema in fastavro's form. Raises SchemaError."""
    return _own_parsed(text).schema


def _own_parsed(text: str) -> ParsedSchema:
    try:
        found = parsed(text)
    except UnfitSchemaError as error:
        raise SchemaError(f"the Avro schema is not valid: {error}", hint="correct it") from None
    check_record(found.schema)
    return found


@dataclass(frozen=True)
class AvroFormat(Format):
    """Format that `avro` creates."""

    schema: str | None
    registry: str | None = field(default=None, repr=False)
    """URL of the registry, which may contain a login."""
    subject: str | None = None

    name: ClassVar[str] = "avro"

    def own_schema(self) -> pa.Schema | None:
        return None if self.schema is None else arrow_of(_parse_user_schema(self.schema))

    def check_decodes(self, schema: pa.Schema) -> None:
        check_any_column(schema, self.name)
        avro_of(schema)
        if self.schema is not None:
            own = _parse_user_schema(self.schema)
            known = [each["name"] for each in own["fields"]]
            for column in schema:
                if column.name not in known and not column.nullable:
                    raise SchemaError(
                        f"the Avro schema has no field for column {column.name!r}",
                        hint=f"its fields are {', '.join(known)}",
                    )
            check_read(own, schema)

    def check_encodes(self, schema: pa.Schema) -> None:
        avro_of(schema)
        check_has_subject(self.registry, self.subject)
        if self.schema is not None:
            own = _parse_user_schema(self.schema)
            fields = own["fields"]
            known = [each["name"] for each in fields]
            for column in schema.names:
                if column not in known:
                    raise SchemaError(
                        f"the Avro schema has no field for column {column!r}, which would be lost",
                        hint=f"its fields are {', '.join(known)}; select only those",
                    )
            for each in fields:
                if each["name"] not in schema.names and "default" not in each:
                    raise SchemaError(
                        f"there is no column for field {each['name']!r} of the Avro schema",
                        hint=f"the columns are {', '.join(schema.names)}",
                    )
            check_written(own, schema)

    def decoder(self, schema: pa.Schema, header: bytes | None = None) -> Decoder:
        return _AvroDecoder(schema, self)

    def encoder(self, schema: pa.Schema) -> Encoder:
        return _AvroEncoder(schema, self)


class _AvroDecoder(Decoder):
    def __init__(self, schema: pa.Schema, format: AvroFormat) -> None:
        super().__init__(schema)
        self._read = fastavro().schemaless_reader
        self._own = None if format.schema is None else _own_parsed(format.schema)
        self._registry = None if format.registry is None else registry_at(format.registry)
        self._writers: dict[int, ParsedSchema] = {}
        """Parsed schemas of the registry, by id."""

    def _decode(self, payloads: pa.Array) -> Decoded:
        self._unknown: dict[int, str] = {}
        """Errors of unknown schemas, by schema id. The next batch requests these schemas again."""
        return decoded_records(payloads, self.schema, self._record, self._columns)

    def _columns(self, records: Sequence[Mapping[str, Any]]) -> Sequence[pa.Array]:
        """Return fields as columns, by name. Other fields are ignored; missing ones are null, also in
        nested records.
        """
        try:
            return [
                column_of(
                    [_with_fields(record.get(each.name), each.type) for record in records],
                    each.with_nullable(True),
                )
                for each in self.schema
            ]
        except TypeMismatch as error:
            raise RowsError(str(error)) from None

    def _record(self, payload: bytes) -> tuple[Mapping[str, Any], int]:
        writer, reader, data = self._own, None, io.BytesIO(payload)
        if self._registry is not None:
            prefix = id_before(payload)
            data.seek(prefix.end)
            writer = self._writer(prefix.id)
            reader = None if self._own is None else self._own.schema
        assert writer is not None
        values = writer.bounds.values_in(payload, data.tell())
        try:
            record = self._read(data, writer.schema, reader)
        except Exception as error:  # fastavro raises various exceptions: IndexError, OverflowError, ...
            reason = f": {error}" if str(error) else ""
            what = f"it is not a record of its Avro schema: {type(error).__name__}{reason}"
            raise RowsError(f"{what}{self._hint(payload)}") from None
        if data.tell() != len(payload):
            left = len(payload) - data.tell()
            raise RowsError(f"{left} bytes follow its Avro record{self._hint(payload)}")
        if not isinstance(record, dict):
            raise RowsError("its Avro schema is not that of a record")
        return record, values

    def _hint(self, payload: bytes) -> str:
        return f"; {WITH_A_REGISTRY}" if self._registry is None and payload[:1] == b"\0" else ""

    def _writer(self, id: int) -> ParsedSchema:
        assert self._registry is not None
        if id in self._unknown:
            raise RowsError(self._unknown[id])
        if id not in self._writers:
            try:
                self._writers[id] = _fetch_schema(self._registry, id)
            except UnfitSchemaError as error:
                self._unknown[id] = str(error)
                raise RowsError(str(error)) from None
        return self._writers[id]


def _with_fields(value: Any, kind: pa.DataType) -> Any:
    """Return the value of a nested record with all fields of its type."""
    if not pa.types.is_struct(kind) or not isinstance(value, dict):
        return value
    return {each.name: _with_fields(value.get(each.name), each.type) for each in kind}


def _fetch_schema(registry: SchemaRegistry, id: int) -> ParsedSchema:
    """Return a schema of the registry. Raises UnfitSchemaError."""
    schema = registry.schema(id)
    try:
        return parsed(schema.text, tuple(schema.refers_to.values()))
    except UnfitSchemaError as error:
        what = f"schema {id} of the registry is not valid: {error}"
        raise UnfitSchemaError(what) from None


class _AvroEncoder(Encoder):
    def __init__(self, schema: pa.Schema, format: AvroFormat) -> None:
        self._format = format
        self._text = avro_of(schema) if format.schema is None else format.schema
        self._schema = _parse_user_schema(self._text)
        self._write = fastavro().schemaless_writer
        self._prefix: bytes | None = None if format.registry is not None else b""
        """Prefix of payloads; None until the schema is registered."""

    def encode(self, rows: Batch) -> pa.Array:
        if self._prefix is None:
            self._prefix = schema_prefix(self._registered())
        prefix = self._prefix
        return pa.array([self._payload(prefix, record) for record in records_of(rows)], pa.binary())

    def _payload(self, prefix: bytes, record: Mapping[str, Any]) -> bytes:
        out = io.BytesIO()
        out.write(prefix)
        try:
            self._write(out, self._schema, record)
        except Exception as error:  # fastavro raises various exceptions
            raise InputError(
                f"a row does not fit its Avro schema: {named_error(error)}",
                record=str(record),
                hint="change the row or the schema",
            ) from error
        return out.getvalue()

    def _registered(self) -> int:
        assert self._format.registry is not None
        assert self._format.subject is not None
        return registry_at(self._format.registry).registered(self._format.subject, self._text)
