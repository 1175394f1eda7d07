"""Topics whose records replace each other by key, as CREATE TABLE with PRIMARY KEY declares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rheos.connectors.kafka.client_options import Value
from rheos.connectors.kafka.sink import Guarantee, KafkaSink
from rheos.connectors.kafka.sink import sink as append_sink
from rheos.connectors.kafka.source import source as source
from rheos.core.errors import ProgramError
from rheos.core.formats.contract import Format


def sink(
    topic: str,
    *,
    brokers: str | Sequence[str],
    key_columns: Sequence[str],
    format: Format | None = None,
    guarantee: Guarantee = "exactly_once",
    options: Mapping[str, Value] | None = None,
    id_prefix: str = "rheos",
) -> KafkaSink:
    """Write each row as a record with its key; a deleted row becomes a record without a value.

    Args:
        topic: The topic.
        brokers: "host:port", several with commas between, or a list of them.
        key_columns: The column of the primary key.
        format: Format of the values; JSON by default.
        guarantee: As of `rh.kafka.sink`.
        options: Further options of the client.
        id_prefix: Prefix of the ids of transactions.

    Returns:
        The sink.

    Raises:
        ProgramError: The table has no primary key, or one of several columns.
    """
    if len(key_columns) != 1:
        raise ProgramError(
            f"an upsert-kafka table needs a PRIMARY KEY of one column, not of {len(key_columns)}",
            hint="add PRIMARY KEY (id) NOT ENFORCED; join several columns in one, as with CONCAT_WS",
        )
    return append_sink(
        topic,
        brokers=brokers,
        format=format,
        key=key_columns[0],
        guarantee=guarantee,
        options=options,
        id_prefix=id_prefix,
    )
