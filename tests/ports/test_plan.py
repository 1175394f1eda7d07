"""The plan of an operator with several inputs, and programs that are refused at their line."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
import tests.ports
from rheos.core.errors import SchemaError
from rheos.core.plan.physical import Exchange
from rheos.core.protocol.elements import TS, WM
from rheos.core.protocol.snapshots import StateKind
from rheos.runtimes.batch.shared_reads import with_shared_reads
from tests.ports.paired import PairedSpec, pair, paired
from tests.ports.ruled import RuledSpec, rule

_SCHEMA = pa.schema(
    [("k", pa.int64()), ("i", pa.int64()), ("v", pa.float64()), ("at", pa.timestamp("us"))]
)


def rows(env: rh.Environment, name: str = "rows") -> rh.DataStream:
    watermark = rh.Watermark.monotonic(on="at")
    return env.from_source(rh.collection([], schema=_SCHEMA), watermark, name=name)


def test_each_port_has_the_edges_of_its_own_exchange() -> None:
    env = rh.Environment(3, runtime="simulated")
    all_rows = rows(env)
    keyed = all_rows.union(rows(env, "more")).key_by("k")
    rule(keyed, all_rows.select("i")).set_parallelism(2).collect("out")
    plan = env.plan()
    [chain] = [each for each in plan.chains if isinstance(each.operators[0].spec, RuledSpec)]
    edges = [edge for edge in plan.edges if edge.target == chain.id]
    assert [(edge.target_port, edge.exchange, edge.keys) for edge in edges] == [
        (0, Exchange.HASH, ("k",)),
        (0, Exchange.HASH, ("k",)),
        (1, Exchange.BROADCAST, ()),
    ]
    ports = chain.operators[0].ports
    assert [port.in_flight for port in ports] == [StateKind.KEYED, StateKind.BROADCAST]
    assert "all of chain" in env.explain()
    assert '|"broadcast"|' in env.explain(format="mermaid")


def test_both_ports_have_the_columns_used_downstream() -> None:
    env = rh.Environment(2, runtime="simulated")
    windows = paired(rows(env)).key_by("k").window(rh.Tumbling("10s")).aggregate(n=rh.agg.count())
    windows.collect("out")
    [head] = [op for op in env.plan().operators() if isinstance(op.spec, PairedSpec)]
    assert all({TS, WM} <= set(port.schema.names) for port in head.ports)


def test_chains_that_feed_different_ports_are_not_merged() -> None:
    env = rh.Environment(2, runtime="batch")
    one = rows(env)
    paired(one).collect("a")
    paired(one).collect("b")
    plan = env.plan()
    assert len(with_shared_reads(plan).chains) == len(plan.chains)


@pytest.mark.parametrize("kind", [pl.Int8, pl.UInt32])
def test_integer_keys_may_have_different_widths(kind: type[pl.DataType]) -> None:
    env = rh.Environment(2, runtime="simulated")
    one = rows(env)
    other = one.with_columns(key=pl.col("k").cast(kind))
    pair(one.key_by("k"), other.key_by("key"), one).collect("out")
    assert env.plan().chains


def test_keys_of_different_types_are_refused_at_their_line() -> None:
    env = rh.Environment(2, runtime="simulated")
    one = rows(env)
    other = one.with_columns(name=pl.col("k").cast(pl.String))
    with pytest.raises(SchemaError, match=r"\(k: int64\), but \(name: string\)") as raised:
        pair(one.key_by("k"), other.key_by("name"), one)
    # The line that adds the node, in place of a method of the API.
    assert raised.value.site is not None
    assert Path(raised.value.site.file) == Path(tests.ports.__file__)
    assert raised.value.operator == "paired"
    assert "cast one before key_by()" in str(raised.value)


def test_keys_of_different_numbers_of_columns_are_refused() -> None:
    env = rh.Environment(2, runtime="simulated")
    one = rows(env)
    with pytest.raises(SchemaError, match="keys of different types"):
        pair(one.key_by("k"), one.key_by("k", "i"), one)
