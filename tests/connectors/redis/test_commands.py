"""Rows as commands in Redis's protocol, compared with commands that are encoded one by one."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rheos.connectors.redis.keys import KeyPattern
from rheos.connectors.redis.sink import CommandEncoder, RedisLayout
from rheos.connectors.redis.text import CommandBuffer, command
from rheos.core.errors import InputError, ProgramError
from rheos.formats import json

SCHEMA = pa.schema([("page", pa.string()), ("n", pa.int64()), ("gone", pa.bool_())])
ROWS = pa.RecordBatch.from_pylist(
    [
        {"page": "a", "n": 1, "gone": False},
        {"page": "é 語", "n": None, "gone": None},
        {"page": "a", "n": None, "gone": True},
        {"page": "", "n": -7, "gone": False},
    ],
    SCHEMA,
)


def encoded(rows: pa.RecordBatch = ROWS, **given: Any) -> CommandBuffer:
    given = {"format": None, "value": None, "ttl_ms": None, "delete": None, **given}
    layout = RedisLayout(KeyPattern.of(given.pop("key", "p:{page}")), **given)
    layout.check(rows.schema)
    return CommandEncoder(layout, rows.schema).encode(rows)


def test_a_hash_has_a_field_for_each_column_that_is_not_null() -> None:
    made = encoded(delete="gone", ttl_ms=60_000)
    assert bytes(made.data) == b"".join(
        [
            command("HSET", "p:a", "page", "a", "n", 1),
            command("PEXPIRE", "p:a", 60_000),
            command("HSET", "p:é 語", "page", "é 語"),
            command("HDEL", "p:é 語", "n"),
            command("PEXPIRE", "p:é 語", 60_000),
            command("DEL", "p:a"),
            command("HSET", "p:", "page", "", "n", -7),
            command("PEXPIRE", "p:", 60_000),
        ]
    )
    assert made.replies.tolist() == [2, 5, 6, 8]
    assert [made.row_of(reply) for reply in range(8)] == [0, 0, 1, 1, 1, 2, 3, 3]


def test_a_row_whose_values_are_all_null_removes_its_fields() -> None:
    made = encoded(ROWS.slice(1, 2), value=("n",), key="{page}")
    assert bytes(made.data) == command("HDEL", "é 語", "n") + command("HDEL", "a", "n")
    assert made.count == 2


def test_a_value_is_encoded_by_its_format() -> None:
    made = encoded(format=json(), value=("n",), delete="gone", ttl_ms=5)
    assert bytes(made.data) == b"".join(
        [
            command("SET", "p:a", '{"n":1}', "PX", 5),
            command("SET", "p:é 語", '{"n":null}', "PX", 5),
            command("DEL", "p:a"),
            command("SET", "p:", '{"n":-7}', "PX", 5),
        ]
    )
    # A part of a larger batch is encoded as by itself.
    assert bytes(encoded(ROWS.slice(2, 2), format=json(), value=("n",), delete="gone").data) == (
        command("DEL", "p:a") + command("SET", "p:", '{"n":-7}')
    )


def test_a_key_may_have_several_columns_but_no_nulls() -> None:
    made = encoded(ROWS.slice(0, 1), key="{n}:{page}!", value=("n",))
    assert bytes(made.data) == command("HSET", "1:a!", "n", 1)
    with pytest.raises(InputError, match="a column of its key is null") as raised:
        encoded(key="{n}", value=("page",))
    assert "é 語" in (raised.value.record or "")


@pytest.mark.parametrize("pattern", ["page", "{}", "a{b", "{a}}", "{a}{a}", 7])
def test_invalid_patterns_are_refused(pattern: Any) -> None:
    with pytest.raises(ProgramError, match="key="):
        KeyPattern.of(pattern)
