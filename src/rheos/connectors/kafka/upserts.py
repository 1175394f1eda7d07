"""Topics whose records replace each other by key, as CREATE TABLE with PRIMARY KEY declares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from rheos.connectors.kafka.client_options import Value
from rheos.connectors.kafka.sink import Guarantee, KafkaSink
from rheos.connectors.kafka.sink import sink as append_sink
from rheos.connectors.kafka.source import End, KafkaSource, Start
from rheos.connectors.kafka.source import source as append_source
from rheos.connectors.kafka.upsert_decoding import UpsertDecoding
from rheos.core.connectors.rejected_records import OnError
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.formats.contract import Format
from rheos.core.graph.changelog import OP
from rheos.formats import json as json_format


def source(
    topics: str | Sequence[str],
    *,
    brokers: str | Sequence[str],
    key_columns: Sequence[str],
    schema: Any,
    format: Format | None = None,
    key_format: Format | None = None,
    metadata: Mapping[str, str] | Sequence[str] = (),
    start: Start = "earliest",
    end: End | None = None,
    group: str | None = None,
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
    discover: str | None = "1m",
    on_error: OnError = "fail",
    options: Mapping[str, Value] | None = None,
) -> KafkaSource:
    """Read each record as an upsert of the row with its key; a record without a value deletes the row.

    Args:
        topics: As of `rh.kafka.source`, like the arguments without a description.
        brokers: "host:port", several with commas between, or a list of them.
        key_columns: The columns of the primary key.
        schema: The columns of a value, with those of the key.
        format: Format of the values; JSON by default.
        key_format: Format of the keys. By default a key is its only column as a string.
        metadata: Metadata to add as columns.
        start: Start of a job without a checkpoint.
        end: End of the input.
        group: Consumer group to which offsets are committed.
        isolation: Whether records of open transactions are read.
        discover: Interval at which to look for new partitions and topics.
        on_error: What to do with a record that does not fit: "fail" or "skip".
        options: Further options of the client.

    Returns:
        The source. Its rows have a column `op`.

    Raises:
        ProgramError: The table has no primary key, or several columns need a format of keys.
        SchemaError: A format cannot decode its columns.
    """
    form = json_format() if format is None else format
    of_keys = _key_format(key_columns, key_format)
    _check_format(form)
    made = append_source(
        topics,
        brokers=brokers,
        schema=schema,
        format=form,
        metadata=metadata,
        start=start,
        end=end,
        group=group,
        isolation=isolation,
        discover=discover,
        on_error=on_error,
        options=options,
    )
    if OP in made.schema.names:
        raise SchemaError(
            f"a column is named {OP!r}, which the kind of each change is", hint="rename the column"
        )
    upserts = UpsertDecoding(tuple(key_columns), of_keys)
    return replace(made, decoding=made.decoding.of_upserts(upserts), record=None)


def sink(
    topic: str,
    *,
    brokers: str | Sequence[str],
    key_columns: Sequence[str],
    format: Format | None = None,
    key_format: Format | None = None,
    guarantee: Guarantee = "exactly_once",
    options: Mapping[str, Value] | None = None,
    id_prefix: str = "rheos",
) -> KafkaSink:
    """Write each row as a record with its key; a deleted row becomes a record without a value.

    Args:
        topic: The topic.
        brokers: "host:port", several with commas between, or a list of them.
        key_columns: The columns of the primary key.
        format: Format of the values; JSON by default.
        key_format: Format of the keys. By default a key is its only column as a string.
        guarantee: As of `rh.kafka.sink`.
        options: Further options of the client.
        id_prefix: Prefix of the ids of transactions.

    Returns:
        The sink.

    Raises:
        ProgramError: The table has no primary key, or several columns need a format of keys.
    """
    of_keys = _key_format(key_columns, key_format)
    if format is not None:
        _check_format(format)
    made = append_sink(
        topic,
        brokers=brokers,
        format=format,
        key=key_columns[0] if of_keys is None else None,
        guarantee=guarantee,
        options=options,
        id_prefix=id_prefix,
    )
    return made if of_keys is None else made.keyed_by(tuple(key_columns), of_keys)


def _key_format(key: Sequence[str], format: Format | None) -> Format | None:
    """Return the format of keys; None for a single column as a string. Raise ProgramError."""
    if not key:
        raise ProgramError(
            "an upsert-kafka table needs a PRIMARY KEY",
            hint="add PRIMARY KEY (id) NOT ENFORCED to the columns",
        )
    plain = format is None or format.name in ("raw", "text")
    if plain and len(key) > 1:
        raise ProgramError(
            f"the PRIMARY KEY of an upsert-kafka table has {len(key)} columns, which need a format",
            hint="write 'key.format' = 'json'",
        )
    return None if plain else format


def _check_format(format: Format) -> None:
    if format.encodes_changes:
        raise ProgramError(
            f"records of {format.name} contain the kind of change, so they are no upserts",
            hint="use 'connector' = 'kafka'",
        )
