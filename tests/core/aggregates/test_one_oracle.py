"""Every aggregate in every form, over every type and its edge values, compared with one oracle. A new
kind of aggregate fails here until it is in `oracle.CASES`. Forms that do not support a kind refuse it
when the program is built."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.aggregates import KINDS
from rheos.core.errors import InputError, ProgramError, SchemaError
from tests.core.aggregates.oracle import (
    CASES,
    INF,
    NAN,
    Case,
    is_number,
    mean_of,
    same,
    sum_fits,
    sum_in_order,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
MOST = 2**63 - 1


def integers(bits: int, signed: bool = True) -> list[Any]:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return [low, high, 0, 1, high - 1, high // 2]


def decimals(digits: int, scale: int, *values: str) -> tuple[pa.DataType, list[Any]]:
    unit = Decimal(1).scaleb(-scale)
    exact = Context(prec=60)
    return pa.decimal128(digits, scale), [Decimal(v).quantize(unit, context=exact) for v in values]


TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), integers(8)),
    "int16": (pa.int16(), integers(16)),
    "int32": (pa.int32(), integers(32)),
    "int64": (pa.int64(), [*integers(64), 2**53, 2**53 + 1, -3, 7]),
    "uint8": (pa.uint8(), integers(8, signed=False)),
    "uint32": (pa.uint32(), integers(32, signed=False)),
    "uint64": (pa.uint64(), [*integers(64, signed=False), 2**63, 7]),
    "float32": (pa.float32(), [0.0, -0.0, 1.5, NAN, INF, -INF, 3.4028234663852886e38, -2.25]),
    "float64": (
        pa.float64(),
        [0.0, -0.0, 0.1, NAN, INF, -INF, 1.7976931348623157e308, 5e-324, 2.0**53, -1.5],
    ),
    "boolean": (pa.bool_(), [True, False]),
    "decimal(10, 2)": (
        pa.decimal128(10, 2),
        [Decimal("99999999.99"), Decimal("-0.01"), Decimal("0.00"), Decimal("1.00")],
    ),
    "decimal(38, 18)": decimals(38, 18, "1e-18", "-1.5", "9e15", "0"),
    "decimal(38, 0)": (
        pa.decimal128(38, 0),
        [Decimal("9" * 38), Decimal("-" + "9" * 38), Decimal(0), Decimal(2**64)],
    ),
    "string": (pa.string(), ["", "a", "Z", "ä", "\U0001f600"]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC), START],
    ),
    "date": (pa.date32(), [date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1)]),
}


def sets_of(name: str, seed: int = 0, drawn: int = 8) -> list[list[Any]]:
    """Return sets of values: only nulls, each edge value once and twice, pairs of them, and random
    ones."""
    _, edges = TYPES[name]
    random = Random(f"{name} {seed}")
    sets: list[list[Any]] = [[None], [None, None]]
    sets += [[edge] for edge in edges] + [[edge, None, edge] for edge in edges]
    for _ in range(drawn):
        sets.append(random.choices([*edges, None], k=random.randint(2, 7)))
    return sets


# --- forms --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """Way to compute aggregates."""

    build: Callable[[rh.Environment, Mapping[str, rh.DataStream], Mapping[str, Case]], rh.DataStream]
    """Makes a stream with `k`, or the start of an hour, and the aggregates by their kinds."""
    kinds: frozenset[str]
    """The kinds that it computes; others are refused where the program is written."""
    in_order: bool = False
    """Whether floats are added up in the order of the rows."""
    in_sql: bool = False
    other_meaning: frozenset[str] = frozenset()
    """Kinds whose names have another meaning there, such as FIRST_VALUE of nulls in OVER."""


ALL = frozenset(CASES)
RUNNING = frozenset({"count", "sum", "mean", "min", "max", "variance", "stddev"})
DISTINCT = frozenset({"count_distinct", "sum_distinct", "mean_distinct"})
SIGNED = (RUNNING | DISTINCT) - {"variance", "stddev"}
LISTS = frozenset({"collect"})
OF_LISTS = frozenset({"approx_count_distinct", "first", "last", "quantile"})
"""Kinds that SQL computes from the list of all values of a group."""
SQL_WINDOWS = frozenset(kind for kind, case in CASES.items() if case.in_sql)


def aggregates(cases: Mapping[str, Case]) -> dict[str, Any]:
    return {kind: case.agg for kind, case in cases.items()}


def calls(cases: Mapping[str, Case], after: str = "") -> str:
    return ", ".join(f"{case.in_sql or kind + '(v)'}{after} AS {kind}" for kind, case in cases.items())


HOUR = "TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' HOUR)"


FORMS: dict[str, Form] = {
    "window": Form(
        lambda env, s, of: s["t"].key_by("k").window(rh.Tumbling("1h")).aggregate(**aggregates(of)), ALL
    ),
    "sliding": Form(
        lambda env, s, of: (
            s["t"]
            .key_by("k")
            .window(rh.Sliding("1h", every="20m"))
            .aggregate(**aggregates(of))
            .filter(rh.col("window_start").dt.minute() == 0)
        ),
        ALL,
    ),
    "session": Form(
        lambda env, s, of: s["t"].key_by("k").window(rh.Session(gap="10m")).aggregate(**aggregates(of)),
        ALL,
    ),
    "window_all": Form(
        lambda env, s, of: s["hours"].window_all(rh.Tumbling("1h")).aggregate(**aggregates(of)), ALL
    ),
    "evicting": Form(
        lambda env, s, of: (
            s["t"]
            .key_by("k")
            .window(rh.Tumbling("1h"))
            .evictor(rh.evictors.count(1_000))
            .aggregate(**aggregates(of))
        ),
        ALL,
    ),
    "running": Form(
        lambda env, s, of: s["t"].key_by("k").running(**aggregates(of)), RUNNING, in_order=True
    ),
    "table": Form(
        lambda env, s, of: s["t"].key_by("k").table(**aggregates(of)),
        RUNNING | DISTINCT | LISTS,
        in_order=True,
    ),
    "table of changes": Form(
        lambda env, s, of: (
            s["changes"].upserts(key="id", op=None).retractions().key_by("k").table(**aggregates(of))
        ),
        SIGNED | LISTS,
        in_order=True,
    ),
    "GROUP BY": Form(
        lambda env, s, of: env.sql(f"SELECT k, {calls(of)} FROM t GROUP BY k"),
        RUNNING | DISTINCT | LISTS | OF_LISTS,
        in_order=True,
        in_sql=True,
    ),
    "MATCH_RECOGNIZE": Form(
        lambda env, s, of: matched(env, of),
        RUNNING | DISTINCT,
        in_sql=True,
        other_meaning=frozenset({"first", "last"}),
    ),
    "GROUP BY window": Form(
        lambda env, s, of: env.sql(
            f"SELECT k, {calls(of)} FROM TABLE({HOUR}) GROUP BY k, window_start, window_end"
        ),
        SQL_WINDOWS,
        in_sql=True,
    ),
    "OVER": Form(
        lambda env, s, of: env.sql(
            f"SELECT k, {calls(of, ' OVER (PARTITION BY k ORDER BY at)')} FROM t"
        ),
        RUNNING | DISTINCT,
        in_sql=True,
        other_meaning=frozenset({"first", "last"}),
    ),
    "OVER frames": Form(
        lambda env, s, of: env.sql(
            f"SELECT k, {calls(of, ' OVER (PARTITION BY k ORDER BY at ROWS 100 PRECEDING)')} FROM t"
        ),
        RUNNING | DISTINCT,
        in_sql=True,
        other_meaning=frozenset({"first", "last"}),
    ),
}


def matched(env: rh.Environment, cases: Mapping[str, Case]) -> rh.DataStream:
    """Return the aggregates over the rows of a set, before its last one."""
    measures = ", ".join(
        f"{str(case.in_sql or kind + '(v)').replace('v)', 'A.v)').replace('(v', '(A.v')} AS {kind}"
        for kind, case in cases.items()
    )
    return env.sql(
        f"SELECT * FROM ends MATCH_RECOGNIZE (PARTITION BY k ORDER BY at MEASURES {measures} "
        "PATTERN (A+ E) DEFINE A AS A.e = 0, E AS E.e = 1)"
    )


def environment(
    name: str, sets: Sequence[Sequence[Any]], runtime: str = "simulated"
) -> tuple[rh.Environment, dict[str, Any]]:
    """Return streams of the rows of all sets: in `t` and `hours` each set has its own hour, and in
    `changes` every row has another value first."""
    kind = TYPES[name][0]
    cells = [(k, i, value) for k, values in enumerate(sets) for i, value in enumerate(values)]
    env = rh.Environment(runtime=runtime, batch_rows=16)

    def table(rows: Sequence[tuple[datetime, int, int, Any]]) -> pa.Table:
        columns = {
            "id": pa.array([1_000 * k + i for _, k, i, _ in rows], pa.int64()),
            "k": pa.array([k for _, k, _, _ in rows], pa.int64()),
            "at": pa.array([at for at, *_ in rows], pa.timestamp("us", "UTC")),
            "v": pa.array([value for *_, value in rows], kind),
        }
        fields = [pa.field(c, a.type, nullable=c == "v") for c, a in columns.items()]
        return pa.table([*columns.values()], schema=pa.schema(fields))

    second, hour = timedelta(seconds=1), timedelta(hours=1)
    in_time = sorted(((START + i * second, k, i, v) for k, i, v in cells), key=lambda row: row[0])
    rows = table(in_time)
    end = [(START + 60 * second, k, 60, None) for k in range(len(sets))]
    last = pa.array([0] * len(in_time) + [1] * len(end))
    ends = table([*in_time, *end]).append_column(pa.field("e", pa.int64(), False), last)
    hours = table([(START + k * hour + i * second, k, i, v) for k, i, v in cells])
    drafts = table([(START, k, i, draft(name, k, i)) for k, i, _ in cells])
    by_time = rh.Watermark.monotonic(on="at")
    streams = {
        "t": env.from_source(rh.collection(rows), watermark=by_time),
        "hours": env.from_source(rh.collection(hours), watermark=by_time),
        "changes": env.from_source(rh.collection(pa.concat_tables([drafts, hours]).drop(["at"]))),
    }
    env.register("t", streams["t"])
    if runtime == "simulated":
        env.register("ends", env.from_source(rh.collection(ends), watermark=by_time))
    return env, streams


def draft(name: str, k: int, i: int) -> Any:
    """Return the row before its change."""
    kind, edges = TYPES[name]
    if (k + i) % 2:
        return None
    if pa.types.is_boolean(kind) or not is_number(kind):
        return edges[-1]
    return Decimal(0) if pa.types.is_decimal(kind) else 1.0 if pa.types.is_floating(kind) else 0


def wanted(form: Form, kind: str, name: str, k: int, values: Sequence[Any]) -> Any:
    case = CASES[kind]
    there = [value for value in values if value is not None]
    if form.in_order and kind in ("sum", "mean") and there and isinstance(there[0], float):
        total = sum_in_order(there)
        return total if kind == "sum" else mean_of(total, len(there))
    return case.expected(there)


def differences(
    name: str,
    sets: Sequence[Sequence[Any]],
    forms: Mapping[str, Form],
    runtime: str = "simulated",
) -> list[str]:
    """Yield the differences between the forms and the oracle."""
    kind = TYPES[name][0]
    fitting = [values for values in sets if sum_fits(_there(values), kind)]
    large = [values for values in sets if not sum_fits(_there(values), kind)]
    found = differences_of(name, fitting, forms, frozenset(), runtime)
    if large:
        skipped = {kind_ for kind_, case in CASES.items() if case.adds}
        if pa.types.is_decimal(kind):
            skipped |= {"mean", "mean_distinct"}
        found += differences_of(name, large, forms, frozenset(skipped), runtime)
    return found


def _there(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def differences_of(
    name: str,
    sets: Sequence[Sequence[Any]],
    forms: Mapping[str, Form],
    skipped: frozenset[str],
    runtime: str,
) -> list[str]:
    env, streams = environment(name, sets, runtime)
    cases = {}
    for called, form in forms.items():
        kinds = form.kinds - skipped
        cases[called] = {
            kind: case
            for kind, case in CASES.items()
            if kind in kinds and (is_number(TYPES[name][0]) or not case.of_numbers)
        }
        form.build(env, streams, cases[called]).collect(called)
    collected = env.execute("aggregates").collected
    found = []
    for called, form in forms.items():
        last: dict[int, dict[str, Any]] = {}
        for row in collected[called].to_pylist():
            hour = row["k"] if "k" in row else (row["window_start"] - START) // timedelta(hours=1)
            last[hour] = row
        for k, values in enumerate(sets):
            for kind, case in cases[called].items():
                got, want = last[k][kind], wanted(form, kind, name, k, values)
                if not same(got, want, case.near) and not is_known(called, kind, values, got, want):
                    found.append(f"{called}: {kind} of {values}: {got!r}, not {want!r}")
    return found


def is_known(called: str, kind: str, values: Sequence[Any], got: Any, want: Any) -> bool:
    """Return whether a difference is documented."""
    there = [value for value in values if value is not None]
    form, largest = FORMS[called], max((abs(v) for v in there if is_real(v) and v == v), default=0)
    if not there:
        return False
    if kind in ("variance", "stddev"):
        # Squares beyond a float are infinite; running ones compute with floats.
        return largest > 1e150 or (form.in_order and largest >= 2**26)
    if called == "table of changes" and kind == "collect":
        # A row that is updated goes to the end of the list.
        return same(sorted(got, key=str), sorted(want, key=str), 0)
    if isinstance(there[0], float) and (
        kind in ("sum_distinct", "mean_distinct")
        or (called == "table of changes" and kind in ("sum", "mean"))
    ):
        # Tables add floats as they come, and take them back with the other sign.
        odd = any(not math.isfinite(value) for value in there)
        return form.in_order and (
            odd or largest > 1e15 or math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-9)
        )
    return False


def is_real(value: Any) -> bool:
    return isinstance(value, int | float | Decimal)


# --- tests --------------------------------------------------------------------------------------------

IN_API = {called: form for called, form in FORMS.items() if not form.in_sql}
IN_SQL = {called: form for called, form in FORMS.items() if form.in_sql}
SQL_TYPES = [name for name in TYPES if not name.startswith("uint") and name != "boolean"]


def test_the_oracle_knows_every_aggregate() -> None:
    assert set(CASES) == set(KINDS)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", TYPES)
def test_every_form_agrees_with_the_oracle(name: str) -> None:
    assert differences(name, sets_of(name), IN_API) == []


@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", SQL_TYPES)
def test_every_form_in_sql_agrees_with_the_oracle(name: str) -> None:
    assert differences(name, sets_of(name), IN_SQL) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.parametrize("name", TYPES)
def test_random_values_agree_with_the_oracle(name: str, seed: int) -> None:
    sets = sets_of(name, seed, drawn=60)
    assert differences(name, sets, FORMS if name in SQL_TYPES else IN_API) == []


@pytest.mark.spark
@pytest.mark.parametrize(
    "name",
    [
        "decimal(38, 18)",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("uint64", "float64")),
    ],
)
def test_batch_agrees_with_the_oracle(name: str) -> None:
    forms = {called: FORMS[called] for called in ("window", "window_all", "running", "table")}
    assert differences(name, sets_of(name, drawn=4), forms, "batch") == []


@pytest.mark.parametrize("called", FORMS)
def test_a_form_refuses_other_kinds_at_their_line(called: str) -> None:
    env, streams = environment("int64", [[1]])
    for kind in sorted(ALL - FORMS[called].kinds - FORMS[called].other_meaning):
        with pytest.raises((ProgramError, SchemaError)):
            FORMS[called].build(env, streams, {kind: CASES[kind]})


@pytest.mark.parametrize("called", IN_API)
def test_sums_of_strings_are_refused(called: str) -> None:
    env, streams = environment("string", [["a"]])
    for kind in sorted(FORMS[called].kinds):
        if CASES[kind].of_numbers:
            with pytest.raises(SchemaError, match="needs a number, and column 'v' is string"):
                FORMS[called].build(env, streams, {kind: CASES[kind]})


@pytest.mark.thinned(3)
@pytest.mark.parametrize("called", FORMS)
@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [
        ("int64", MOST, "64 bits"),
        ("uint64", 2**64 - 1, "64 bits"),
        ("decimal(38, 0)", Decimal("9" * 38), "DECIMAL(38, 0)"),
    ],
)
def test_a_sum_that_is_too_large_is_an_error_with_a_hint(
    called: str, name: str, value: Any, limit: str
) -> None:
    form = FORMS[called]
    if form.in_sql and name not in SQL_TYPES:
        pytest.skip("SQL has no such type")
    for kind in ("sum", "sum_distinct"):
        if kind not in form.kinds:
            continue
        other = Decimal(7) if isinstance(value, Decimal) else 7
        env, streams = environment(name, [[None, value, other]])
        form.build(env, streams, {kind: CASES[kind]}).collect("out")
        with pytest.raises(InputError) as caught:
            env.execute("too large")
        error = caught.value
        assert f"exceeds {limit}" in error.what, error
        assert "cast" in str(error.hint).casefold()
        assert "0" in str(error.key or error.record)
        if form.in_sql:
            assert str(CASES[kind].in_sql).split("(")[0] in error.what
            assert "pl." not in str(error.hint)
