"""Every decoder of what comes from a socket or a file, fed with anything: it gives a value, or its one
error.

In the suite for seconds. For minutes: `pytest tests/hostile/test_decoders.py
--hypothesis-profile=fuzz`, and, where atheris is installed, `python -m tests.hostile.fuzz NAME`.
"""

from __future__ import annotations

import base64
import json
import struct
import sys
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rheos.core.errors import (
    CheckpointError,
    InputError,
    JobFailedError,
    RheosError,
    Site,
    TransportError,
    UserFunctionError,
)
from rheos.core.protocol import error_data, wire
from rheos.core.protocol.decoding import BoundedDecoder, MalformedError
from rheos.core.protocol.error_data import ErrorData
from rheos.runtimes.spark.shipping import sealed, worker_error
from tests.hostile.decoders import DECODERS, TRUE

plain: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
jsonable: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


nested = b"\x91" * 5_000 + b"\xc0"
bomb = b"\xdd\xff\xff\xff\xff"


@pytest.mark.parametrize("name", DECODERS)
@given(data=st.binary(max_size=200) | plain.map(msgspec.msgpack.encode) | jsonable.map(as_json))
@example(data=nested)
@example(data=b"\x81\xa4type" + nested)
@example(data=bomb)
@example(data=b"[" * 5_000)
@example(data=b"\x82\xa4type\xa9Heartbeat\xa1x" + nested)
def test_any_bytes_decode_or_raise_the_declared_error(name: str, data: bytes) -> None:
    DECODERS[name](data)


@pytest.mark.parametrize("name", DECODERS)
@given(data=st.data())
def test_a_true_message_with_a_byte_changed_does_no_more(name: str, data: st.DataObject) -> None:
    true = data.draw(st.sampled_from(TRUE[name]))
    at = data.draw(st.integers(0, len(true) - 1))
    byte = data.draw(st.integers(0, 255))
    DECODERS[name](true[:at] + bytes([byte]) + true[at + 1 :])
    DECODERS[name](true[:at])


@pytest.mark.parametrize("name", DECODERS)
def test_the_true_messages_are_read(name: str) -> None:
    """Else the test above would change nothing that is read."""
    for true in TRUE[name]:
        assert DECODERS[name](true) is not None


@given(plain)
def test_data_within_the_depth_limit_are_decoded_as_by_msgspec(value: Any) -> None:
    data = msgspec.msgpack.encode(value)
    decoded = BoundedDecoder[object](object, max_bytes=len(data), max_depth=100).decode(data)
    assert msgspec.msgpack.encode(decoded) == data


@pytest.mark.parametrize("depth", [16, 17])
def test_depth_is_bounded_however_much_python_may_recurse(depth: int) -> None:
    decoder: BoundedDecoder[object] = BoundedDecoder(object, max_bytes=10**7)
    arrays = b"\x91" * depth + b"\xc0"
    maps = b"\x81\xc0" * depth + b"\xc0"
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        for data in (arrays, maps):
            if depth <= 16:
                decoder.decode(data)
            else:
                with pytest.raises(MalformedError, match="nested deeper than 16"):
                    decoder.decode(data)
        with pytest.raises(MalformedError, match="nested deeper than 16"):
            decoder.decode(b"\x91" * 5_000_000 + b"\xc0")
    finally:
        sys.setrecursionlimit(before)


def test_size_is_bounded_before_anything_is_read() -> None:
    decoder: BoundedDecoder[bytes] = BoundedDecoder(bytes, max_bytes=10)
    with pytest.raises(MalformedError, match="12 bytes, but the maximum is 10"):
        decoder.decode(msgspec.msgpack.encode(b"x" * 10))


@pytest.mark.parametrize(
    "announced", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdc\xff\xff"]
)
def test_a_container_is_no_larger_than_the_remaining_bytes(announced: bytes) -> None:
    """Else room is made for four milliards of values."""
    with pytest.raises(MalformedError, match="truncated"):
        BoundedDecoder[object](object, max_bytes=100).decode(announced + b"\xc0\xc0")


# --- errors as data -----------------------------------------------------------------------------


class ElsewhereError(InputError):
    """As a connector of the user's may define."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (
            UserFunctionError("it raised", record="Row(v=5)", key="'a'", detail="line\nline"),
            UserFunctionError,
        ),
        (
            CheckpointError("disk", site=Site("job.py", 3), operator="map", hint="make room"),
            CheckpointError,
        ),
        (ElsewhereError("odd"), InputError),
        (RheosError("a lone surrogate \ud800"), RheosError),
    ],
    ids=["user", "place", "elsewhere", "surrogate"],
)
def test_an_error_crosses_as_data(error: RheosError, kind: type[RheosError]) -> None:
    for came in (
        error_data.decoder.decode(error_data.encode(ErrorData.of(error))).error(),
        worker_error(RuntimeError(f"py4j says: {sealed(error)} at org.apache")),
    ):
        assert type(came) is kind
        assert str(came) == str(error).encode("utf-8", "backslashreplace").decode()


def test_an_unknown_class_is_a_plain_error() -> None:
    for kind in ("FutureError", "Site", "__builtins__", "Any", ""):
        assert type(ErrorData(kind=kind, what="w").error()) is RheosError


def test_a_text_without_end_is_cut() -> None:
    data = ErrorData.of(RheosError("w", record="r" * 10**7, detail="d" * 10**7))
    assert len(error_data.encode(data)) < 100_000
    assert "9983616 characters" in str(data.record)


def test_a_pickle_in_a_tasks_message_is_not_loaded() -> None:
    """Who can write the text of an exception in a task could run code on the driver."""
    import pickle

    class Runs:
        def __reduce__(self) -> tuple[Any, ...]:
            return (exec, ("import sys; sys.modules['rheos_was_here'] = sys",))

    text = base64.b64encode(pickle.dumps(Runs())).decode()
    error = worker_error(RuntimeError(f"rheos-error:{text}:rheos-error"))
    assert isinstance(error, JobFailedError)
    assert "cannot be read" in str(error)
    assert "rheos_was_here" not in sys.modules


# --- what the decoders are for ------------------------------------------------------------------


def test_every_decoder_has_true_messages() -> None:
    assert TRUE.keys() == DECODERS.keys()


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["ab", "cd", "ef"]),
        pa.array([b"ab", b"cd", b"ef"]),
        pa.array([[1, 2], [3, 4], [5, 6]]),
        pa.array([{"s": "ab"}, {"s": "cd"}, {"s": "ef"}]),
        pa.array([["ab", "cd", "ef"]]),
        pa.array([[("ab", 1), ("cd", 2), ("ef", 3)]], pa.map_(pa.string(), pa.int64())),
    ],
    ids=lambda column: str(column.type),
)
def test_offsets_outside_a_batch_are_refused(column: pa.Array) -> None:
    """Also those between the first and the last."""
    batch = pa.record_batch({"c": column})
    payload = bytearray(batch.serialize())
    decoder = wire.BatchDecoder(batch.schema)
    assert decoder.decode(memoryview(payload)) == batch
    at = payload.index(struct.pack("<4i", 0, 2, 4, 6))
    struct.pack_into("<i", payload, at + 4, 1 << 30)
    with pytest.raises(TransportError, match="cannot be read"):
        decoder.decode(memoryview(payload))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"\xff"]).view(pa.string()),
        pa.array([b"\xff"], pa.large_binary()).view(pa.large_string()),
        pa.array([5], pa.int64()).view(pa.date64()),
        pa.array([-1], pa.int32()).view(pa.time32("s")),
    ],
    ids=lambda column: str(column.type),
)
def test_values_travel_as_they_are(column: pa.Array) -> None:
    """What a subtask can hand to itself, it can send: beside a text, which has offsets."""
    batch = pa.record_batch({"c": column, "s": ["x"]})
    came = wire.BatchDecoder(batch.schema).decode(batch.serialize())
    assert came.column("c").equals(column)


def test_a_header_of_another_version_is_refused_clearly() -> None:
    (header,) = TRUE["header"]
    with pytest.raises(TransportError, match=r"a peer uses version 9 of the protocol, but this"):
        wire.decode_header(header[:16] + b"\x09" + header[17:])
