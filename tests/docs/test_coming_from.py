r"""docs/coming-from.md: our programs do what their timelines say; others find the same rows.

Those of Structured Streaming are run by the PySpark that is there (slow). Those of PyFlink are run
where PYFLINK names a Python that has apache-flink (2.3.0), and those of Flink where FLINK_JARS is a
class path with its jars, the Kafka connector's and Jackson's:

    PYFLINK=VENV/bin/python FLINK_JARS='VENV/lib/python3.11/site-packages/pyflink/lib/*:jars/*' \
        pytest -m slow tests/docs/test_coming_from.py
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from tests.connectors.kafka.reading import Topic

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
OTHERS = Path(__file__).parent / "other_engines"
BLOCK = re.compile(r"^\*\*([A-Z][\w ]+)\*\*\n\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = PAGE.read_text().split("\n## ")
PROGRAMS = [section.partition("\n")[0] for section in SECTIONS if re.match(r"\d+\. ", section)]
FOUND_BY_FLINK = {
    "counts": ["(to,1)", "(be,1)", "(to,2)", "(do,1)"],
    "late": ["eve"],
    "perMinute": ["(home,0,2)", "(home,60000,2)"],
    "sessions": ["(ada,0,2)", "(ada,5400000,1)"],
    "paid": ["(1,300)"],
    "inEuros": ["(1,5.0)"],
    "silent": ["(db2,1)", "(db1,2)"],
    "once": ["a", "b"],
    "named": ["(1,user 1)", "(2,user 2)"],
    "totals": ["(1,1,300)", "(1,2,500)", "(2,1,500)"],
}
ENGINES = ("Flink", "PyFlink", "Structured Streaming", "Rheos")


def blocks(engine: str) -> str:
    """Return the blocks of an engine, at their lines in the page, so that errors name them."""
    text = PAGE.read_text()
    lines = [""] * text.count("\n")
    for found in BLOCK.finditer(text):
        if found[1] == engine:
            line = text.count("\n", 0, found.start(3))
            code = found[3].splitlines()
            lines[line : line + len(code)] = code
    return "\n".join(lines) + "\n"


def test_every_program_is_written_for_each_engine() -> None:
    for section in SECTIONS[1:]:
        if section.partition("\n")[0] in PROGRAMS:
            assert [found[0] for found in BLOCK.findall(section)] == list(ENGINES)
    assert len(PROGRAMS) == 10


def test_every_block_names_its_engine() -> None:
    text = PAGE.read_text()
    assert len(BLOCK.findall(text)) == len(re.findall(r"^```(?:python|java)$", text, re.MULTILINE))


def test_our_programs_match_their_timelines() -> None:
    exec(compile(blocks("Rheos"), str(PAGE), "exec", dont_inherit=True), {"__name__": "__main__"})


def test_the_kafka_to_kafka_program_runs(kafka_broker: Any) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    topic = 'rh.kafka.source("payments", '
    code = blocks("Rheos")
    assert topic in code
    code = code.replace(topic, f'{topic}end="latest", ')  # So that the job ends.
    exec(compile(code, str(PAGE), "exec", dont_inherit=True), names)
    payments, large = (Topic(kafka_broker.address, name=name) for name in ("payments", "large"))
    payments.write({0: [json.dumps({"id": n, "cents": n * 60_000}).encode() for n in range(4)]})
    env = rh.Environment(runtime="simulated")
    names["large_ones"](env, kafka_broker.address)
    env.execute()
    env = rh.Environment(runtime="simulated")
    written = rh.kafka.source(
        "large",
        brokers=kafka_broker.address,
        schema=names["Payment"],
        format=rh.formats.json(),
        end="latest",
    )
    env.from_source(written).collect("large")
    found = env.execute().collected["large"].to_pylist()
    assert found == [{"id": n, "cents": n * 60_000} for n in (2, 3)]
    payments.delete()
    large.delete()


@pytest.mark.slow
def test_structured_streaming_has_the_same_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.docs.other_engines import rows, structured_streaming

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    spark = structured_streaming.session()
    # With the imports that the page leaves out, and in a module that Spark sends by value.
    names: dict[str, Any] = {**vars(structured_streaming), "__name__": "__main__"}
    exec(compile(blocks("Structured Streaming"), str(PAGE), "exec", dont_inherit=True), names)
    run = structured_streaming.Runner(spark, tmp_path)
    clicks = "page string, user string, at timestamp"
    try:
        lines = run.stream("lines", "line string", rows.LINES)
        assert run.found("counts", names["counts"](lines), "update") == rows.COUNTS
        read = run.stream("clicks", clicks, rows.CLICKS)
        assert run.found("per_minute", names["per_minute"](read)) == rows.PER_MINUTE
        read = run.stream("visits", clicks, rows.VISITS)
        assert run.found("sessions", names["sessions"](read)) == rows.SESSIONS
        orders = run.stream("orders", "id int, at timestamp", rows.ORDERS)
        payments = run.stream("payments", "order int, cents int, at timestamp", rows.PAYMENTS)
        assert run.found("paid", names["paid"](orders, payments)) == rows.PAID
        sales = run.stream("sales", "id int, currency string, amount double", rows.SALES)
        rates = spark.createDataFrame(rows.RATES, "currency string, rate double")
        assert run.found("in_euros", names["in_euros"](sales, rates)) == rows.IN_EUROS
        beats = run.stream("beats", "host string, at timestamp", rows.BEATS)
        assert run.found("silent", names["silent"](beats)) == rows.SILENT
        events = run.stream("events", "id string, at timestamp", rows.EVENTS)
        assert run.found("once", names["once"](events)) == rows.ONCE
        ids = run.stream("ids", "id int", rows.IDS)
        assert run.found("named", names["named"](ids)) == rows.NAMED
        transfers = run.stream("transfers", "customer int, cents int", rows.TRANSFERS)
        assert run.found("totals", names["totals"](transfers), "update") == rows.TOTALS
    finally:
        spark.stop()


@pytest.mark.slow
@pytest.mark.skipif("PYFLINK" not in os.environ, reason="PYFLINK names no Python that has apache-flink")
def test_pyflink_has_the_same_results(tmp_path: Path) -> None:
    programs = tmp_path / "programs.py"
    programs.write_text(blocks("PyFlink"))
    runner = "tests.docs.other_engines.pyflink_programs"
    command = [os.environ["PYFLINK"], "-m", runner, str(programs)]
    subprocess.run(command, check=True, cwd=PAGE.parents[1], timeout=600)


@pytest.mark.slow
@pytest.mark.skipif("FLINK_JARS" not in os.environ, reason="FLINK_JARS names no class path with Flink")
def test_flink_has_the_same_results(tmp_path: Path) -> None:
    source = tmp_path / "FlinkPrograms.java"
    source.write_text(
        (OTHERS / "FlinkPrograms.java").read_text().replace("// PROGRAMS", blocks("Flink").strip())
    )
    classes = f"{tmp_path}:{os.environ['FLINK_JARS']}"
    subprocess.run(["javac", "-nowarn", "-cp", classes, str(source)], check=True, timeout=300)
    opens = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in ("lang", "util")]
    command = ["java", *opens, "-cp", classes, "FlinkPrograms"]
    ran = subprocess.run(command, check=True, timeout=600, stdout=subprocess.PIPE, text=True)
    found = [line for line in ran.stdout.splitlines() if line.partition(" ")[0] in FOUND_BY_FLINK]
    assert sorted(found) == sorted(
        f"{program} {row}" for program, rows in FOUND_BY_FLINK.items() for row in rows
    )
