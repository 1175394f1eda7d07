"""Modules that must not be imported in a situation, as each costs every user start-up time. Everything
that Rheos requires is forbidden unless the situation needs it, and so are new dependencies."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

ROWS = {"numpy", "polars", "pyarrow", "msgspec"}
"""Libraries of rows. The first array that pyarrow makes of values in Python imports pandas."""
COMMAND = {"msgspec", "typer"}
"""Libraries of the command line: they read its options and declare its operations."""
SCREEN = {"rich"}
"""Libraries of `rheos run`: its table of results."""

SUBMODULES = {
    *(f"pyarrow.{name}" for name in ("csv", "dataset", "flight", "fs", "json", "parquet")),
    *("asyncio", "concurrent.futures.process", "http.server", "multiprocessing"),
    *("sqlite3", "ssl", "unittest"),
}
UNUSED = {
    *(f"rheos.api.{name}" for name in ("async_functions", "joins", "keyed_stream", "patterns")),
    *(f"rheos.core.operators.{name}" for name in ("async_map", "joins", "over", "pattern", "window")),
}
"""Modules of operators that a job without keys and windows does not have."""
WINGS = {
    *(f"rheos.{name}" for name in ("formats", "ml", "sql", "cli.benchmarks", "cli.shell")),
    *(f"rheos.runtimes.{name}" for name in ("batch", "continuous")),
    *(
        f"rheos.ops.{name}"
        for name in ("chaos", "dashboard", "debugging", "export", "forks", "lineage")
    ),
    *(f"rheos.ops.{name}" for name in ("savepoints", "servers")),
    *(
        f"rheos.connectors.{name}"
        for name in ("cassandra", "clickhouse", "delta", "duckdb", "files", "http")
    ),
    *(
        f"rheos.connectors.{name}"
        for name in (
            "iceberg",
            "kafka",
            "lancedb",
            "kinesis",
            "listener",
            "mongodb",
            "hbase",
            "mqtt",
            "mysql",
            "nats",
            "opensearch",
            "postgres",
            "pulsar",
            "rabbitmq",
            "redis",
            "socket",
            "sql_database",
            "sqs",
        )
    ),
}
ENGINE = {
    *("rheos.api.environment", "rheos.api.resolve", "rheos.api.streams", "rheos.core.graph"),
    *("rheos.runtimes.driver", "rheos.runtimes.job", "rheos.runtimes.spark"),
}
"""Modules that a command needs only when it runs a job."""

JOB = """
import rheos as rh

env = rh.Environment(runtime="simulated")
env.from_source(rh.collection([{"word": "a", "n": 1}])).print()
env.execute("one row")
"""
IN_SIMULATION = """
import rheos as rh
from rheos import testing

simulated = testing.simulate(
    lambda env: env.from_source(rh.collection([{"n": 1}])), expected=[{"n": 1}]
)
"""
OF_COMMAND = """
import sys
from rheos.cli.main import app
try:
    app({arguments})
except SystemExit as ended:
    assert not ended.code
"""
LISTED = "import sys; print('\\n', *sys.modules, file=sys.stderr)"


def required() -> set[str]:
    """Return the packages of all libraries that Rheos and its extras require."""
    named = {re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in requires("rheos") or ()}
    plain = {re.sub(r"[-_.]+", "-", name).lower() for name in named}
    return {
        package
        for package, distributions in packages_distributions().items()
        if plain & {re.sub(r"[-_.]+", "-", name).lower() for name in distributions}
    } - {"rheos"}


def imported(program: str) -> set[str]:
    """Run a program in a separate process, and return the modules that it has imported."""
    ran = subprocess.run(
        [sys.executable, "-c", f"{program}\n{LISTED}"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return set(ran.stderr.splitlines()[-1].split())


def command(*arguments: str) -> str:
    return OF_COMMAND.format(arguments=list(arguments))


HELPS = ("", "run", "sql", "explain", "why", "savepoint", "metrics", "connectors", "dashboard")


def test_a_new_dependency_is_forbidden() -> None:
    assert {"pandas", "pyspark", "sqlglot", "numba", "starlette", "confluent_kafka"} < required()


def test_importing_rheos_imports_no_library() -> None:
    found = imported("import rheos")
    assert not sorted(found & required())
    assert {name for name in found if name.count(".") == 1 and name.startswith("rheos.")} == {
        "rheos.core"
    }


@pytest.mark.parametrize("name", HELPS)
def test_help_imports_only_what_declares_the_command_line(name: str) -> None:
    found = imported(command(*filter(None, [name]), "--help"))
    assert not sorted(found & (required() - COMMAND | SUBMODULES | WINGS | ENGINE))


def test_the_version_is_printed_without_a_library_of_rows() -> None:
    assert not sorted(imported(command("--version")) & (required() - COMMAND | WINGS | ENGINE))


def test_a_simulated_run_of_one_row_imports_what_one_row_needs(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB)
    found = imported(command("run", "--runtime", "simulated", str(job)))
    unneeded = required() - ROWS - COMMAND - SCREEN | SUBMODULES | WINGS | UNUSED
    assert not sorted(found & unneeded)


def test_a_simulated_program_needs_no_command_line() -> None:
    found = imported(JOB)
    unneeded = required() - ROWS | SUBMODULES | WINGS | UNUSED | {"rheos.cli", "rheos.testing"}
    assert not sorted(found & unneeded)


def test_the_test_kit_imports_what_one_row_needs() -> None:
    assert not sorted(
        imported(IN_SIMULATION) & (required() - ROWS | SUBMODULES | WINGS | {"rheos.cli"})
    )
