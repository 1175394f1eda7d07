"""Valid and invalid messages of pgoutput."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.connectors.postgres.pgoutput import (
    UNCHANGED,
    BeginMessage,
    CommitMessage,
    DeleteMessage,
    IgnoredMessage,
    InsertMessage,
    MalformedMessageError,
    RelationColumn,
    RelationMessage,
    TruncateMessage,
    UpdateMessage,
    decode,
)
from tests.connectors.postgres import messages as m

ALL = {
    m.begin(0x1505FA8, 727, commit_us=5): BeginMessage(0x1505FA8, 5, 727),
    m.commit(10, 20): CommitMessage(10, 20),
    m.relation(("id", m.INTEGER), ("a", m.TEXT)): RelationMessage(
        7,
        "public",
        "t",
        "d",
        (RelationColumn("id", m.INTEGER, -1, True), RelationColumn("a", m.TEXT, -1, False)),
    ),
    m.insert(1, "é 語", None): InsertMessage(7, ["1", "é 語", None]),
    m.update(1, ...): UpdateMessage(7, None, False, ["1", UNCHANGED]),
    m.update(2, "b", key=(1, None)): UpdateMessage(7, ["1", None], True, ["2", "b"]),
    m.update(2, "b", full=(2, "a")): UpdateMessage(7, ["2", "a"], False, ["2", "b"]),
    m.delete(1, None): DeleteMessage(7, ["1", None], True),
    m.delete(1, "a", full=True): DeleteMessage(7, ["1", "a"], False),
    m.truncate(7, 8): TruncateMessage((7, 8)),
    b"Y\0\0\0\x07public\0mood\0": IgnoredMessage("Y"),
}


@pytest.mark.parametrize("data", ALL, ids=lambda data: chr(data[0]))
def test_messages_are_decoded(data: bytes) -> None:
    assert decode(data) == ALL[data]


@pytest.mark.parametrize("data", [data for data in ALL if data[0] != ord("Y")], ids=lambda d: chr(d[0]))
def test_messages_of_wrong_length_are_refused(data: bytes) -> None:
    for end in range(len(data)):
        with pytest.raises(MalformedMessageError):
            decode(data[:end])
    with pytest.raises(MalformedMessageError, match="has 1 extra bytes"):
        decode(data + b"\0")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"S\0", "unknown message kind 'S'"),
        (b"I\0\0\0\x07X", "expected the part 'N', found 'X'"),
        (b"I\0\0\0\x07N\0\x01b\0", "kind 'b'"),
        (b"I\0\0\0\x07N\xff\xff", "65535 columns"),
        (b"I\0\0\0\x07N\0\x01t\xff\xff\xff\xff", "4294967295 bytes ends early"),
        (b"I\0\0\0\x07N\0\x01t\0\0\0\x01\xff", "invalid UTF-8"),
        (b"T\xff\xff\xff\xff\0", "4294967295 tables"),
    ],
)
def test_unknown_messages_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(MalformedMessageError, match=message):
        decode(data)


@given(st.binary(max_size=60), st.sampled_from("BCRIUDTOYM"))
def test_any_bytes_are_a_message_or_refused(data: bytes, kind: str) -> None:
    with contextlib.suppress(MalformedMessageError):
        decode(kind.encode() + data)
