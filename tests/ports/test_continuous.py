"""Several ports over sockets, between Spark workers."""

from __future__ import annotations

import polars as pl
import pytest

import rheos as rh
from tests.ports.paired import paired
from tests.ports.ruled import is_rule, rule
from tests.ports.test_batch import collected, rows, source
from tests.worlds.programs import same

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]


def test_two_keyed_ports_and_a_broadcast_port_on_spark() -> None:
    of = rows(400, 20)
    env = rh.Environment(2, runtime="continuous", batch_rows=16)
    stream = source(env, of)
    rules = stream.filter(pl.col("i") % 5 == 0).select("i")
    paired(stream).collect("pairs")
    found = collected(env, rule(stream.filter(pl.col("i") % 5 > 0).key_by("k"), rules))
    own = [row for row in found if row["k"] >= 0]
    same((row["i"] for row in own), (r["i"] for r in of if not is_rule(r["i"])), "rows")
    assert {row["most"] for row in own} <= {0, 1}
    numbers = [row["i"] for row in of if is_rule(row["i"])]
    told = [(row["subtask"], row["i"], row["n"]) for row in found if row["k"] < 0]
    same(told, [(subtask, number, 1) for subtask in range(2) for number in numbers], "rules")
