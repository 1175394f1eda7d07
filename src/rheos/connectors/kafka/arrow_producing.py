"""Passes the records of an Arrow batch to librdkafka in one call, instead of one by one.

The client's `produce` takes one record and holds the interpreter for about a microsecond, during which
other threads of the process wait. librdkafka itself accepts an array of addresses and copies the
records (`rd_kafka_produce_batch`) without the interpreter. Its functions are public; the place where
the client keeps its handle of librdkafka is not. Therefore the handle is only read from a client whose
objects have a known size; with any other client, records are sent one by one.

librdkafka reports nothing about records passed in this way. So only transactions use it: a transaction
that lacks a record cannot be committed.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from rheos.connectors.kafka.client_options import client
from rheos.core.connectors.schemas import is_bytes
from rheos.core.protocol.elements import Batch

_KNOWN_SIZES = (136, 144, 176)
"""Sizes of a producer object in bytes, in versions 2.11 to 2.16 of the client, on 64-bit machines. In
all of them the handle is the first field."""
_COPY = 0x2
"""Flag of rd_kafka_produce_batch that copies the records. The flag for a partition per record is not
used: librdkafka 2.16 breaks a transaction with it while it does not know the topic's partitions."""
_NO_PARTITION = -1

_MESSAGE = np.dtype(
    [
        ("err", np.int32),
        ("rkt", np.uintp),
        ("partition", np.int32),
        ("payload", np.uintp),
        ("len", np.uintp),
        ("key", np.uintp),
        ("key_len", np.uintp),
        ("offset", np.int64),
        ("_private", np.uintp),
    ],
    align=True,
)
"""Layout of rd_kafka_message_t. The call reads payload and key, and writes err."""


class ArrowProducing:
    """Sends Arrow batches to one topic through a client's producer."""

    def __init__(self, producer: Any, topic: str, library: ctypes.CDLL) -> None:
        self._producer = producer
        self._topic = topic.encode()
        self._library = library

    @classmethod
    def of(cls, producer: Any, topic: str) -> ArrowProducing | None:
        """Create an instance; None if the client's objects do not have a known size."""
        if type(producer).__basicsize__ not in _KNOWN_SIZES or ctypes.sizeof(ctypes.c_void_p) != 8:
            return None
        library = _library()
        return None if library is None else cls(producer, topic, library)

    def takes(self, schema: pa.Schema) -> bool:
        """Return whether records of this schema are supported: a value, or a value and a key."""
        return set(schema.names) <= {"value", "key"} and all(map(is_bytes, schema.types))

    def produce(self, records: Batch) -> int:
        """Queue as many of the first records as there is room for, and return their number. Raises
        KafkaException for the first record that is refused."""
        messages = np.zeros(records.num_rows, _MESSAGE)
        # The addresses point into the batch's buffers, which exist until librdkafka has copied them.
        _place(messages, "payload", "len", records.column("value"))
        if "key" in records.schema.names:
            _place(messages, "key", "key_len", records.column("key"))
        queued = self._call(messages)
        kafka = client()
        failed = messages["err"][messages["err"] != 0]
        refused = failed[failed != kafka.KafkaError._QUEUE_FULL]
        if len(refused):
            raise kafka.KafkaException(kafka.KafkaError(int(refused[0])))
        assert queued + len(failed) == records.num_rows
        return queued

    def _call(self, messages: np.ndarray[Any, Any]) -> int:
        library = self._library
        handle = ctypes.c_void_p.from_address(id(self._producer) + object.__basicsize__)
        topic = library.rd_kafka_topic_new(handle, self._topic, None)
        assert topic, "the name of a topic is checked before"
        try:
            place = messages.ctypes.data, len(messages)
            return int(library.rd_kafka_produce_batch(topic, _NO_PARTITION, _COPY, *place))
        finally:
            library.rd_kafka_topic_destroy(topic)


@cache
def _library() -> ctypes.CDLL | None:
    """Return the librdkafka that the client has loaded; None if the platform does not find its
    functions through the client's module."""
    from confluent_kafka import cimpl

    try:
        library = ctypes.CDLL(cimpl.__file__)
        pointer, number, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
        library.rd_kafka_topic_new.argtypes = [pointer, text, pointer]
        library.rd_kafka_topic_new.restype = pointer
        library.rd_kafka_topic_destroy.argtypes = [pointer]
        library.rd_kafka_topic_destroy.restype = None
        library.rd_kafka_produce_batch.argtypes = [pointer, ctypes.c_int32, number, pointer, number]
        library.rd_kafka_produce_batch.restype = number
    except (OSError, AttributeError):
        return None
    return library


def _place(messages: np.ndarray[Any, Any], address: str, length: str, column: pa.Array) -> None:
    """Set the address and the length of each value; null has the address 0."""
    kind = column.type
    is_large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    width = np.int64 if is_large else np.int32
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, width)[column.offset : column.offset + len(column) + 1]
    # Empty strings need an address, too; and if all are empty there may be no data buffer.
    begin = offsets.address if data is None else data.address
    messages[address] = ends[:-1].astype(np.uintp) + np.uintp(begin)
    messages[length] = np.diff(ends)
    if column.null_count:
        null = column.is_null().to_numpy(zero_copy_only=False)
        messages[address][null] = 0
        messages[length][null] = 0
