"""Distribution of rows to subtasks as the program specifies, and chaining."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos import col
from rheos.core.errors import ProgramError, RheosError, SchemaError
from rheos.core.graph.row_distribution import PartitionBy
from rheos.core.plan import explain
from rheos.core.plan.physical import Exchange
from rheos.core.site import Site
from rheos.core.task.custom_partition import CustomPartitioner
from rheos.core.task.routing import _opposite

SCHEMA = pa.schema([("i", pa.int64())])
COUNT = 240


def numbered(block: rh.Block) -> pa.RecordBatch:
    """Return the numbers from 0 to 239, in two splits."""
    numbers = range(block.start, block.start + block.rows)
    return pa.RecordBatch.from_pydict({"i": [2 * n + block.split for n in numbers]}, SCHEMA)


class Where(rh.RichFunction):
    """Adds the number of the subtask that processes a row."""

    def open(self, ctx: rh.RuntimeContext) -> None:
        self.subtask = ctx.subtask

    def __call__(self, row: Any) -> Any:
        return {"i": row.i, "at": self.subtask}


def environment(parallelism: int = 3) -> rh.Environment:
    return rh.Environment(parallelism, runtime="simulated", restart=rh.restart.none())


def source(env: rh.Environment) -> rh.DataStream:
    return env.from_source(
        rh.generator(numbered, count=COUNT, rate_per_s=4000, splits=2, schema=SCHEMA, block_rows=8)
    )


def found(dealt: Callable[[rh.DataStream], rh.DataStream]) -> list[tuple[int, int]]:
    """Return the rows, each with the subtask that received it."""
    env = environment()
    dealt(source(env)).map(Where(), returns={"i": int, "at": int}).collect("out")
    return [(row["i"], row["at"]) for row in env.execute().collected["out"].to_pylist()]


def by_subtask(rows: list[tuple[int, int]]) -> Counter[int]:
    assert sorted(i for i, _ in rows) == list(range(COUNT))
    return Counter(at for _, at in rows)


def test_rebalance_sends_rows_to_all_subtasks() -> None:
    assert by_subtask(found(lambda rows: rows)).keys() == {0, 1}
    evened = by_subtask(found(lambda rows: rows.rebalance()))
    assert evened.keys() == {0, 1, 2}
    assert min(evened.values()) > COUNT // 6


def test_global_sends_rows_to_one_subtask() -> None:
    assert by_subtask(found(lambda rows: rows.global_())) == {0: COUNT}


def test_forward_keeps_rows_in_their_subtask() -> None:
    assert by_subtask(found(lambda rows: rows.forward())) == by_subtask(found(lambda rows: rows))


def test_rescale_sends_rows_to_the_matching_subtasks() -> None:
    narrow = found(lambda rows: rows.filter("i >= 0").set_parallelism(2).rescale())
    assert by_subtask(narrow).keys() == {0, 1, 2}
    for senders, width, wanted in [
        (4, 2, [[0], [0], [1], [1]]),
        (2, 4, [[0, 1], [2, 3]]),
        (3, 3, [[0], [1], [2]]),
        (3, 2, [[0], [0], [1]]),
        (2, 3, [[0], [1, 2]]),
    ]:
        assert [list(_opposite(at, senders, width)) for at in range(senders)] == wanted


def test_broadcast_sends_rows_to_every_subtask() -> None:
    rows = found(lambda rows: rows.broadcast())
    assert sorted(rows) == [(i, at) for i in range(COUNT) for at in range(3)]


def test_an_expression_or_a_function_selects_the_subtask() -> None:
    def by_hundreds(i: int, subtasks: int) -> int:
        assert subtasks == 3
        return i // 100

    assert sorted(found(lambda rows: rows.partition_by(col("i") % 2))) == [
        (i, i % 2) for i in range(COUNT)
    ]
    computed = found(lambda rows: rows.partition_by(lambda subtasks: 2 - col("i") % subtasks))
    assert sorted(computed) == [(i, 2 - i % 3) for i in range(COUNT)]
    called = found(lambda rows: rows.partition_by(by_hundreds, on="i"))
    assert sorted(called) == [(i, i // 100) for i in range(COUNT)]


def test_the_last_distribution_counts() -> None:
    assert by_subtask(found(lambda rows: rows.broadcast().rebalance().global_())) == {0: COUNT}
    env = environment()
    env_rows = source(env).broadcast().key_by("i").running(n=rh.agg.count())
    env_rows.collect("out")
    assert env.execute().collected["out"].num_rows == COUNT


# --- what a partitioner gives wrongly ---------------------------------------------------------------


def test_an_invalid_subtask_is_an_error_at_the_line_with_the_record() -> None:
    with pytest.raises(RheosError) as raised:
        found(lambda rows: rows.partition_by(col("i") // 100 + 1))
    error = raised.value
    assert error.what.endswith("returned 3, but the subtasks are 0 to 2")
    assert error.record is not None
    assert error.record in {f"{{'i': {i}}}" for i in range(200, COUNT)}
    assert error.site is not None
    assert error.site.file == __file__


@pytest.mark.parametrize("given", [-1, 3, 2**70, None, 1.0, True, "1"])
def test_a_function_gives_the_number_of_a_subtask(given: Any) -> None:
    by = PartitionBy(lambda values, subtasks: given, ("i", "j"), "choose", Site("job.py", 5))
    batch = pa.RecordBatch.from_pydict({"i": [1], "j": ["a"]})
    with pytest.raises(RheosError, match="but the subtasks are 0 to 2") as raised:
        CustomPartitioner(by, 3).split(batch)
    assert raised.value.site == Site("job.py", 5)
    assert raised.value.record == "{'i': 1, 'j': 'a'}"


def test_an_error_of_the_function_has_its_line() -> None:
    def choose(i: int, subtasks: int) -> int:
        return 1 // (i - 7)

    batch = pa.RecordBatch.from_pydict({"i": [1, 7]})
    with pytest.raises(RheosError, match="ZeroDivisionError") as raised:
        CustomPartitioner(PartitionBy(choose, ("i",), "choose", Site("job.py", 5)), 3).split(batch)
    assert raised.value.record == "{'i': 7}"
    assert raised.value.site is not None
    assert raised.value.site.line == inspect.getsourcelines(choose)[1] + 1


def test_null_is_refused_as_a_subtask() -> None:
    by = PartitionBy(col("i"), (), "i", Site("job.py", 5))
    with pytest.raises(RheosError, match="returned None"):
        CustomPartitioner(by, 3).split(pa.RecordBatch.from_pydict({"i": [1, None]}))


# --- plans ------------------------------------------------------------------------------------------


def test_the_plan_shows_how_rows_are_distributed() -> None:
    env = environment()
    rows = source(env)
    rows.rebalance().filter("i > 1").collect("a")
    rows.partition_by(col("i") % 2).filter("i > 1").collect("b")
    rows.global_().filter("i > 1").name("one").collect("c")
    rows.forward().filter("i > 1").name("kept").collect("d")
    plan = env.plan()
    assert [chain.name for chain in plan.chains][1:] == ["filter -> a", "filter -> b", "one", "c"]
    assert plan.chains[0].name.endswith("kept -> d")
    exchanges = [edge.exchange for edge in plan.edges]
    assert exchanges == [
        Exchange.REBALANCE,
        Exchange.CUSTOM,
        Exchange.REBALANCE,
        Exchange.REBALANCE,
    ]
    assert plan.chains[3].widest == 1
    assert 'reads chain 0 by partition_by [(col("i")) % (dyn int: 2)]' in explain.text(plan)


def test_the_program_may_split_chains() -> None:
    env = environment()
    first = source(env).name("source").filter("i > 1").name("first")
    second = first.filter("i > 2").name("second").disable_chaining()
    second.filter("i > 3").name("third").filter("i > 4").name("fourth").start_new_chain().collect("out")
    plan = env.plan()
    assert [chain.name for chain in plan.chains] == [
        "source -> first",
        "second",
        "third",
        "fourth -> out",
    ]
    assert {edge.exchange for edge in plan.edges} == {Exchange.FORWARD}
    assert env.execute().collected["out"].num_rows == COUNT - 5


def test_invalid_distributions_are_refused_at_their_line() -> None:
    env = environment()
    rows = source(env)
    with pytest.raises(ProgramError, match="union\\(\\) cannot take a stream that is repartitioned"):
        rows.union(rows.rebalance())
    with pytest.raises(
        ProgramError, match="a union is not an operator: its readers read its inputs directly"
    ):
        rows.union(rows).disable_chaining()
    with pytest.raises(
        ProgramError,
        match="are no longer in the order of their source",
    ):
        rows.rebalance().with_event_time(rh.Watermark.monotonic(on="i", unit="ms"))
    with pytest.raises(SchemaError, match="partition_by\\(\\) needs one integer, but"):
        rows.partition_by(col("i") / 2)
    with pytest.raises(ProgramError, match="the function of partition_by\\(\\) must return an"):
        rows.partition_by(lambda subtasks: 0)
    with pytest.raises(SchemaError, match="unknown column 'j'"):
        rows.partition_by(lambda j, subtasks: 0, on="j")
    rows.global_().filter("i > 1").set_parallelism(2).collect("a")
    with pytest.raises(ProgramError, match="all rows are sent to one subtask, but the operator has"):
        env.plan()
    env = environment()
    source(env).forward().filter("i > 1").set_parallelism(2).collect("a")
    with pytest.raises(ProgramError, match=r"forward\(\) sends rows from each subtask to the one"):
        env.plan()
