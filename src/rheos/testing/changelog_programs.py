"""Programs of tables that change, each with its straight-line oracle (`programs`)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from rheos import aggregates as agg
from rheos.api.streams import DataStream
from rheos.testing.programs import Arrived, CheckedProgram, Outputs, same


def _tables(rows: DataStream) -> Mapping[str, DataStream]:
    keyed = rows.key_by("k")
    found = keyed.table(n=agg.count(), most=agg.max("i"))
    sizes = found.retractions().key_by("n").table(keys=agg.count(), i=agg.sum("most"))
    return {"found": found, "sizes": sizes.retractions(), "once": keyed.dedup().select("k")}


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
    there: Counter[tuple[int, int, int]] = Counter()
    for out in outputs["sizes"]:
        sign = 1 if out["op"] in ("insert", "update_after") else -1
        there[out["n"], out["keys"], out["i"]] += sign
    sizes: dict[int, list[int]] = defaultdict(list)
    for numbers in keyed.values():
        sizes[len(numbers)].append(max(numbers))
    left = {row: count for row, count in there.items() if count}
    assert left == {(n, len(most), sum(most)): 1 for n, most in sizes.items()}, left


TABLES = CheckedProgram("tables that change", _tables, _check_tables, _check_tables)
