"""A TRUNCATE in a changelog empties the table, wherever its rows are kept. An invalid change affects no
other row."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rheos as rh
from rheos.core.errors import InputError, ProgramError, UserFunctionError
from rheos.testing import simulate

ROWS = pa.schema([("id", pa.int64()), ("shop", pa.string()), ("v", pa.int64()), ("op", pa.string())])

changes = st.lists(
    st.tuples(
        st.sampled_from(["insert", "update", "delete", "truncate", "t", "m", "c", "r", "tombstone"]),
        st.integers(0, 4),
        st.sampled_from(["a", "b"]),
        st.integers(0, 9),
    ),
    max_size=25,
)


def row(op: str, id: int, shop: str, v: int) -> dict[str, Any]:
    if op in ("truncate", "t", "m"):
        return {"id": None, "shop": None, "v": None, "op": op}
    if op == "tombstone":
        return dict.fromkeys(ROWS.names)
    return {"id": id, "shop": shop, "v": v, "op": op}


def left(script: list[dict[str, Any]], key: tuple[str, ...]) -> dict[Any, dict[str, Any]]:
    """Return the final table by the definition of truncation."""
    table: dict[Any, dict[str, Any]] = {}
    for change in script:
        values = {name: change[name] for name in ("id", "shop", "v")}
        match change["op"]:
            case "truncate" | "t":
                table.clear()
            case "m" | None:
                pass
            case "delete":
                table.pop(tuple(change[name] for name in key), None)
            case _:
                table[tuple(change[name] for name in key)] = values
    return table


def settled(rows: list[dict[str, Any]], key: tuple[str, ...]) -> dict[Any, dict[str, Any]]:
    return left([each for each in rows if each["op"] != "update_before"], key)


def run(build: Any, script: list[dict[str, Any]], parallelism: int = 1, **kw: Any) -> Any:
    env = rh.Environment(parallelism, runtime="simulated", **kw)
    source = rh.collection(pa.Table.from_pylist(script, schema=ROWS))
    made = build(env.from_source(source))
    for name, stream in (made if isinstance(made, dict) else {"out": made}).items():
        stream.collect(name)
    found = env.execute("changes").collected
    return {name: table.to_pylist() for name, table in found.items()}


@pytest.mark.parametrize("key", [("id",), ("shop", "id")])
@settings(max_examples=12)
@given(script=changes, parallelism=st.integers(1, 3))
def test_the_table_is_empty_after_a_truncation(
    key: tuple[str, ...], script: list[Any], parallelism: int
) -> None:
    rows = [row(*each) for each in script]
    wanted = left(rows, key)
    plain = run(lambda s: s.upserts(key=key), rows, parallelism)["out"]
    assert settled(plain, key) == wanted
    both = run(lambda s: s.upserts(key=key).retractions(), rows, parallelism)["out"]
    assert settled(both, key) == wanted
    bag = Counter[str]()
    for each in both:
        sign = -1 if each.pop("op") in ("delete", "update_before") else 1
        bag[repr(each)] += sign
        assert bag[repr(each)] >= 0
    assert +bag == Counter(map(repr, wanted.values()))


SCRIPT = [
    *(row("insert", n, "ab"[n % 2], n) for n in range(40)),
    row("truncate", 0, "", 0),
    *(row("insert", n, "ab"[n % 2], 1) for n in range(0, 60, 3)),
    row("delete", 3, "b", 0),
    row("t", 0, "", 0),
    *(row("insert", n, "ab"[n % 2], 2) for n in range(5)),
]


def emptied_twice(env: rh.Environment) -> rh.DataStream:
    source = rh.collection(pa.Table.from_pylist(SCRIPT, schema=ROWS))
    return env.from_source(source).upserts(key="id")


@pytest.mark.parametrize("state", [pytest.param("memory", marks=pytest.mark.slow), "rocksdb"])
def test_truncation_works_despite_faults_and_rescales(state: Any) -> None:
    """Check partitioned keys in state: they are restored and rescaled, together with rows in flight."""
    done = simulate(lambda env: emptied_twice(env).as_rows(), seeds=4, slow=True, state=state)
    changes = done.out.to_pylist()
    assert len(changes) == 65 + 40 + 19 + 1
    assert set(settled(changes, ("id",))) == {(n,) for n in range(5)}


def test_downstream_results_are_truncated_too() -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        by_shop = emptied_twice(env).retractions().key_by("shop")
        return by_shop.table(n=rh.agg.count(), s=rh.agg.sum("v")).as_rows()

    done = simulate(build, seeds=3, slow=True, last_by=("shop",))
    last = {each["shop"]: (each["n"], each["s"]) for each in done.out.to_pylist()}
    assert last == {"a": (3, 6), "b": (2, 4)}


def test_sql_over_the_table_sees_the_truncation() -> None:
    env = rh.Environment(2, runtime="simulated")
    source = rh.collection(pa.Table.from_pylist(SCRIPT, schema=ROWS))
    env.register("t", env.from_source(source).upserts(key="id"))
    env.sql("SELECT shop, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY shop").collect("out")
    found: dict[str, Any] = {}
    for each in env.execute("sql").collected["out"].to_pylist():
        if each["op"] == "delete":
            found.pop(each["shop"])
        elif each["op"] != "update_before":
            found[each["shop"]] = (each["n"], each["s"])
    assert found == {"a": (3, 6), "b": (2, 4)}


BAD = [
    row("insert", 1, "a", 1),
    {"id": 2, "shop": "a", "v": 2, "op": "x"},
    {"id": None, "shop": "a", "v": 3, "op": "insert"},
    {"id": 4, "shop": "a", "v": 4, "op": None},
    row("insert", 5, "a", 5),
]


def test_an_invalid_change_is_a_bad_record() -> None:
    def build(rows: rh.DataStream) -> dict[str, rh.DataStream]:
        table = rows.upserts(key="id", on_error="skip")
        return {"out": table, "bad": table.side_output("rejected")}

    for parallelism in (1, 3):
        found = run(build, BAD, parallelism)
        assert sorted(each["id"] for each in found["out"]) == [1, 5]
        bad = sorted((each["v"], each["op"]) for each in found["bad"])
        assert bad == [(2, "x"), (3, "insert"), (4, "null")]


@pytest.mark.parametrize(
    ("bad", "kind", "what"),
    [
        (BAD[1], UserFunctionError, "does not say whether the row is inserted"),
        (BAD[2], InputError, "a change has a null key"),
        (BAD[3], InputError, "a change has no kind of change"),
    ],
)
def test_without_skip_an_invalid_change_ends_the_job(bad: Any, kind: Any, what: str) -> None:
    with pytest.raises(kind, match=what) as caught:
        run(lambda rows: rows.upserts(key="id"), [BAD[0], bad])
    assert caught.value.record is not None
    assert 'on_error="skip"' in str(caught.value.hint)


def test_invalid_uses_are_refused_at_their_line() -> None:
    rows = rh.Environment(1).from_source(rh.collection([{"id": 1}]))
    for wrong, what in (
        ({"on_truncate": "drop"}, "on_truncate='drop' is not known"),
        ({"on_error": "drop"}, "on_error='drop' is not known"),
        ({"on_error": "skip", "op": None}, 'on_error="skip" needs op= and on_truncate="delete"'),
    ):
        with pytest.raises(ProgramError, match=what):
            rows.upserts(**{"key": "id", "op": None, **wrong})  # type: ignore[arg-type]
