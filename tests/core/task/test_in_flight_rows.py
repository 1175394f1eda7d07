"""Rows between subtasks as state: written, redistributed, and restored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.errors import InputError, Site, UnrestorableError
from rheos.core.operators.contract import PortType
from rheos.core.operators.union import UnionSpec
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.elements import TS, WM, Batch
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.key_groups import group_range
from rheos.core.protocol.snapshots import (
    IN_FLIGHT_INPUT,
    IN_FLIGHT_OUTPUT,
    RECEIVER,
    PartMode,
    RestoredState,
    StateKind,
)
from rheos.core.state import format as state_format
from rheos.core.task.in_flight_rows import (
    InFlight,
    in_flight_parts,
    restored_batches,
    without_in_flight,
)
from tests.core.operators.contexts import stream_type

_OP = OperatorId("op")
_GROUPS = 16
# The names that the format itself has.
_SCHEMA = pa.schema(
    [
        ("key_group", pa.string()),
        ("row", pa.int64()),
        ("text", pa.string_view()),
        ("many", pa.list_(pa.int64())),
        (TS, pa.int64()),
        (WM, pa.int64()),
    ]
)


def batch(keys: list[str], first: int) -> Batch:
    numbers = list(range(first, first + len(keys)))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(keys),
            pa.array(numbers),
            pa.array(
                [f"text of {number}, which is a long one" for number in numbers], pa.string_view()
            ),
            pa.array([[number] * (number % 3) for number in numbers], pa.list_(pa.int64())),
            pa.array(numbers),
            pa.array(numbers),
        ],
        schema=_SCHEMA,
    )


PLAIN = PortType(stream_type(_SCHEMA), (), _SCHEMA)
KEYED = PortType(stream_type(_SCHEMA), ("key_group",), _SCHEMA)
COPIED = PortType(stream_type(_SCHEMA), (), _SCHEMA, broadcast=True)


def operator(schema: pa.Schema = _SCHEMA, ports: int = 1, like: PortType = KEYED) -> PlannedOperator:
    port = replace(like, type=stream_type(schema), schema=schema)
    return PlannedOperator(_OP, "count", Site("program.py", 7), UnionSpec(), (port,) * ports, {}, {})


def written(in_flight: list[InFlight]) -> dict[str, tuple[StateKind, bytes]]:
    found = {}
    for id, parts in in_flight_parts(in_flight, _GROUPS):
        assert id == _OP
        for part in parts:
            assert part.mode is PartMode.FULL
            table = part.write()
            assert isinstance(table, pa.Table)
            found[part.state] = (part.kind, state_format.encode(table, part.kind, part.mode))
    return found


def test_without_rows_in_flight_no_state_is_written() -> None:
    assert written([InFlight(_OP, 0, KEYED, True, [])]) == {}


def test_rows_of_several_chains_to_a_port_are_one_state() -> None:
    given_rows = [
        InFlight(_OP, 0, PLAIN, False, [batch(["a"], 1)]),
        InFlight(_OP, 0, PLAIN, False, [batch(["b"], 2)]),
        InFlight(_OP, 0, PLAIN, True, [batch(["c"], 3)]),
        InFlight(_OP, 1, PLAIN, True, [batch(["d"], 4)]),
    ]
    states = written(given_rows)
    assert set(states) == {f"{IN_FLIGHT_OUTPUT}0", f"{IN_FLIGHT_INPUT}0", f"{IN_FLIGHT_INPUT}1"}
    kind, data = states[f"{IN_FLIGHT_OUTPUT}0"]
    assert kind is StateKind.LIST
    restored = {f"{IN_FLIGHT_OUTPUT}0": [state_format.decode(data, None)]}
    (found,) = restored_batches(operator(), restored, IN_FLIGHT_OUTPUT, 100)
    assert found[1].column("row").to_pylist() == [1, 2]


@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=9), min_size=1, max_size=5),
    st.integers(1, 5),
)
def test_keyed_rows_go_to_the_owner_of_their_key_and_keep_their_order(
    batches: list[list[str]], parallelism: int
) -> None:
    first, sent = 0, []
    for keys in batches:
        sent.append(batch(keys, first))
        first += len(keys)
    states = written([InFlight(_OP, 0, KEYED, True, sent)])
    ((kind, data),) = states.values()
    assert kind is StateKind.KEYED
    wanted = pa.Table.from_batches(sent).to_pylist()
    got = []
    for subtask in range(parallelism):
        own = group_range(subtask, parallelism, _GROUPS)
        restored = {f"{IN_FLIGHT_INPUT}0": [state_format.decode(data, own)]}
        for port, rows in restored_batches(operator(), restored, IN_FLIGHT_INPUT, 3):
            assert port == 0
            assert rows.num_rows <= 3
            assert rows.schema == _SCHEMA
            got += rows.to_pylist()
    assert sorted(got, key=lambda row: row["row"]) == wanted
    for key in set("abcdefgh"):
        numbers = [row["row"] for row in got if row["key_group"] == key]
        assert numbers == sorted(numbers)


def test_copies_of_rows_belong_to_their_receivers() -> None:
    """Check that a sender has copies for each receiver, while all rows of a receiver are its own."""
    states = written(
        [
            InFlight(_OP, 0, COPIED, False, [batch(["a"], 1), batch(["b", "c"], 2)], receiver=0),
            InFlight(_OP, 0, COPIED, False, [batch(["b", "c"], 2)], receiver=2),
            InFlight(_OP, 0, COPIED, True, [batch(["z"], 0)]),
        ]
    )
    kind, data = states[f"{IN_FLIGHT_OUTPUT}0"]
    assert kind is StateKind.BROADCAST
    table = state_format.decode(data, None)
    assert table.column(RECEIVER).to_pylist() == [0, 0, 0, 2, 2]
    assert [row["row"] for row in table.column("row").to_pylist()] == [1, 2, 3, 2, 3]
    kind, data = states[f"{IN_FLIGHT_INPUT}0"]
    assert kind is StateKind.BROADCAST
    assert state_format.decode(data, None).column_names == ["row"]


class _Found(RestoredState):
    def __init__(self, kind: StateKind, data: bytes) -> None:
        self.kind = kind
        self._data = data

    def __iter__(self) -> Iterator[pa.Table]:
        yield state_format.decode(self._data, None)


@pytest.mark.parametrize("was", [PLAIN, KEYED, COPIED], ids=["any", "keyed", "broadcast"])
@pytest.mark.parametrize("now", [PLAIN, KEYED, COPIED], ids=["any", "keyed", "broadcast"])
def test_rows_of_another_exchange_are_refused(was: PortType, now: PortType) -> None:
    ((kind, data),) = written([InFlight(_OP, 0, was, True, [batch(["a"], 1)])]).values()
    restored = {f"{IN_FLIGHT_INPUT}0": _Found(kind, data)}
    found = restored_batches(operator(like=now), restored, IN_FLIGHT_INPUT, 100)
    if was is now:
        ((port, rows),) = found
        assert (port, rows.column("row").to_pylist()) == (0, [1])
    else:
        with pytest.raises(UnrestorableError, match="whose distribution over its subtasks has"):
            list(found)


def test_operators_do_not_see_rows_in_flight() -> None:
    restored = {"own": [], f"{IN_FLIGHT_INPUT}0": [], f"{IN_FLIGHT_OUTPUT}0": []}
    assert without_in_flight(restored) == {"own": []}


def test_rows_of_narrower_columns_fit_wider_ones() -> None:
    states = written([InFlight(_OP, 0, PLAIN, True, [batch(["a"], 1)])])
    ((_, data),) = states.values()
    wider = pa.schema([("row", pa.float64()), (TS, pa.int64())])
    restored = {f"{IN_FLIGHT_INPUT}0": [state_format.decode(data, None)]}
    ((_, rows),) = restored_batches(operator(wider), restored, IN_FLIGHT_INPUT, 100)
    assert rows.schema == wider
    assert rows.to_pylist() == [{"row": 1.0, TS: 1}]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (operator(pa.schema([("gone", pa.int64())])), "that no longer fit its input"),
        (operator(ports=0), "no longer has"),
    ],
)
def test_a_changed_program_that_cannot_receive_them_is_refused(
    changed: PlannedOperator, why: str
) -> None:
    states = written([InFlight(_OP, 0, PLAIN, True, [batch(["a"], 1)])])
    ((_, data),) = states.values()
    restored = {f"{IN_FLIGHT_INPUT}0": [state_format.decode(data, None)]}
    with pytest.raises(UnrestorableError, match=why) as raised:
        list(restored_batches(changed, restored, IN_FLIGHT_INPUT, 100))
    assert "savepoint" in str(raised.value)
    assert "program.py:7" in str(raised.value)


def test_an_overtaken_row_without_key_is_an_error_at_key_by() -> None:
    schema = pa.schema({"user": pa.string(), "n": pa.int64()})
    rows = pa.record_batch({"user": ["a", None], "n": [1, 2]}, schema=schema)
    site = Site("program.py", 9)
    port = PortType(stream_type(schema), ("user",), schema, site)
    with pytest.raises(InputError, match="the key column 'user' is null") as raised:
        written([InFlight(_OP, 0, port, True, [rows])])
    assert (raised.value.site, raised.value.operator) == (site, "key_by")
    assert raised.value.record == "{'user': None, 'n': 2}"
