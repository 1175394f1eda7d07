"""Programs of updating tables, each with its straight-line oracle (`programs`)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import polars as pl

from rheos.api.streams import DataStream
from rheos.core import aggregates as agg
from tests.worlds.programs import Arrived, CheckedProgram, Outputs, Rows, same


def _tables(rows: DataStream) -> Mapping[str, DataStream]:
    keyed = rows.key_by("k")
    found = keyed.table(n=agg.count(), most=agg.max("i"))
    sizes = found.retractions().key_by("n").table(keys=agg.count(), i=agg.sum("most"))
    odd = rows.filter(pl.col("i") % 2 == 1).key_by("k").table(odd=agg.count())
    both = found.select("k", "n", "op").key_by("k").join(odd.key_by("k"), "left", ttl="forever")
    once = keyed.dedup().select("k")
    return {"found": found, "sizes": sizes.retractions(), "both": both, "once": once}


def _check_tables(rows: list[Arrived], outputs: Outputs) -> None:
    keyed: dict[int, list[int]] = defaultdict(list)
    for row in rows:
        keyed[row.k].append(row.i)
    same((out["k"] for out in outputs["once"]), list(keyed), "keys")
    for key, numbers in keyed.items():
        outs = [out for out in outputs["found"] if out["k"] == key]
        wanted = [(n, "insert" if n == 1 else "update_after") for n in range(1, len(numbers) + 1)]
        same(((out["n"], out["op"]) for out in outs), wanted, f"changes of key {key}")
        assert max(out["most"] for out in outs) == max(numbers)
    odd = {key: sum(number % 2 for number in numbers) or None for key, numbers in keyed.items()}
    both = {(key, len(numbers), odd[key]): 1 for key, numbers in keyed.items()}
    assert _in_the_end(outputs["both"], "k", "n", "odd") == both
    sizes: dict[int, list[int]] = defaultdict(list)
    for numbers in keyed.values():
        sizes[len(numbers)].append(max(numbers))
    left = _in_the_end(outputs["sizes"], "n", "keys", "i")
    assert left == {(n, len(most), sum(most)): 1 for n, most in sizes.items()}, left


def _in_the_end(changes: Rows, *names: str) -> Mapping[tuple[Any, ...], int]:
    there: Counter[tuple[Any, ...]] = Counter()
    for out in changes:
        sign = 1 if out["op"] in ("insert", "update_after") else -1
        there[tuple(out[name] for name in names)] += sign
    return {row: count for row, count in there.items() if count}


TABLES = CheckedProgram("tables that change", _tables, _check_tables, _check_tables)
