"""The common part of the programs that run in other systems for Python: the shop, options, the result.

Such a program runs in a virtual environment without Rheos, so this module imports only the standard
library. The programs are scripts in this folder, and import it by its bare name.
"""

import argparse
import json

INITIAL = "outside"
RULES = {
    ("outside", "sign_in"): "browsing",
    ("browsing", "add"): "shopping",
    ("shopping", "add"): "shopping",
    ("shopping", "remove"): "browsing",
    ("shopping", "pay"): "paid",
    ("paid", "ship"): "browsing",
    ("browsing", "sign_out"): "outside",
}
TOUR = ("sign_in", "add", "add", "pay", "ship", "add", "remove", "sign_out")


def options() -> argparse.ArgumentParser:
    """Return the options that every program takes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--warmup", type=float, default=10)
    return parser


def print_result(
    began_ns: int, ended_ns: int, records: int, p50_ms: float | None, p99_ms: float | None
) -> None:
    """Print the last line of a program. Times are since the epoch, and latencies None if unknown."""
    result = {
        "began_ns": began_ns,
        "ended_ns": ended_ns,
        "records": records,
        "latency_ms": {"p50": p50_ms, "p99": p99_ms},
    }
    print(json.dumps(result), flush=True)
