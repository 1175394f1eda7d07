"""Print how much of each feature of SQL runs: `python scripts/sql_coverage.py [--refused] [FEATURE]`.

The probes are in `tests/sql/probes.py`. A probe runs if its rows equal DuckDB's. It is refused if the
error points to a place in the query. Everything else is wrong, and then the exit code is 1.

With `--spark`, print how many examples of Spark's functions have Spark's result, for each group of
functions, such as `math`. The examples are those of the installed PySpark.

With `--flink`, print how many of the forms in Flink's documentation have their documented value, for
each group of functions (`tests/sql/flink_functions.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[1]))

import rheos as rh
from tests.sql.compare import found_by_duckdb, found_by_rheos
from tests.sql.flink_functions import judged as judged_by_flink
from tests.sql.probes import PROBES, Probe
from tests.sql.spark_examples import SETTINGS, Verdict, examples
from tests.sql.spark_examples import judged as judged_by_spark


def judged(probe: Probe) -> tuple[str, str]:
    """Return "runs", "refused" or "wrong", and why."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            ours = found_by_rheos({"probe": probe.sql})["probe"]
    except rh.RheosError as error:
        return ("refused" if "^" in (error.detail or "") else "wrong"), error.what
    except Exception as error:
        return "wrong", repr(error)
    theirs = found_by_duckdb({"probe": probe.duckdb or probe.sql})["probe"]
    if ours == theirs:
        return "runs", ""
    return "wrong", f"{sorted(map(repr, ours))[:3]}, not {sorted(map(repr, theirs))[:3]}"


def report(features: Iterable[str], *, refused: bool) -> int:
    """Print a line for each feature, and the wrong probes. Return the number of these."""
    faults = 0
    print(f"{'feature':18}  runs  refused  wrong")
    for feature in features:
        found = [(probe, *judged(probe)) for probe in PROBES[feature]]
        counts = [
            sum(verdict == each for _, verdict, _ in found) for each in ("runs", "refused", "wrong")
        ]
        faults += counts[2]
        print(f"{feature:18}  {counts[0]:4}  {counts[1]:7}  {counts[2]:5}", flush=True)
        for probe, verdict, why in found:
            if verdict == "wrong" or (refused and verdict == "refused"):
                print(f"    {verdict}: {probe.sql}\n        {why}")
    return faults


def report_of_spark(groups: Iterable[str], *, refused: bool) -> int:
    """Print a line for each group of Spark's functions, and their total. Return 0."""
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    builder = SparkSession.builder.master("local[1]").config(map={**SETTINGS, **quiet})
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")  # Errors of examples are part of the report.
    wanted, verdicts = {*groups}, [*Verdict]
    total: Counter[Verdict] = Counter()
    print(f"{'functions':18}  {'  '.join(verdicts)}  share")
    for group, some in groupby(examples(session), key=lambda each: each.group):
        if wanted and group not in wanted:
            continue
        found = [(example, *judged_by_spark(session, example)) for example in some]
        counts = Counter(verdict for _, verdict, _ in found)
        total += counts
        _print_shares(group, counts)
        for example, verdict, why in found:
            if verdict is Verdict.DIFFERS or (refused and verdict is Verdict.REFUSED):
                print(f"    {verdict}: {example.sql}\n        {why}")
    _print_shares("total", total)
    session.stop()
    return 0


def report_of_flink(groups: Iterable[str], *, refused: bool) -> int:
    """Print a line for each group of Flink's functions, and their total. Return 0."""
    wanted, found = {*groups}, judged_by_flink()
    print(f"{'functions':20}  runs  of  share")
    shown = [form for form in found if not wanted or form.group in wanted]
    for group in [*dict.fromkeys(form.group for form in shown), "total"]:
        some = [form for form in shown if group in (form.group, "total")]
        wrong = [form for form in some if found[form]]
        runs = len(some) - len(wrong)
        print(f"{group:20}  {runs:4}  {len(some):2}  {runs / len(some):5.0%}", flush=True)
        for form in wrong if refused and group != "total" else ():
            print(f"    {form.call}\n        {found[form]}")
    return 0


def _print_shares(name: str, counts: Counter[Verdict]) -> None:
    """Print the number of each verdict, and the share of the examples that are not left out."""
    computed = counts.total() - counts[Verdict.LEFT_OUT]
    share = f"{counts[Verdict.AGREES] / computed:5.0%}" if computed else "    -"
    numbers = "  ".join(f"{counts[each]:{len(each)}}" for each in Verdict)
    print(f"{name:18}  {numbers}  {share}", flush=True)


def main() -> None:
    """Read the arguments, and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("features", nargs="*", metavar="FEATURE", help=", ".join(PROBES))
    parser.add_argument("--refused", action="store_true", help="list refused probes with their errors")
    parser.add_argument("--spark", action="store_true", help="run the examples of Spark's functions")
    parser.add_argument("--flink", action="store_true", help="run the documented forms of Flink")
    said = parser.parse_args()
    if said.flink:
        sys.exit(report_of_flink(said.features, refused=said.refused))
    if said.spark:
        sys.exit(report_of_spark(said.features, refused=said.refused))
    if unknown := {*said.features} - {*PROBES}:
        parser.error(f"unknown features {sorted(unknown)}; the features are {', '.join(PROBES)}")
    sys.exit(1 if report(said.features or PROBES, refused=said.refused) else 0)


if __name__ == "__main__":
    main()
