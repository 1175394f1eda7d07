"""The walk of docs/kafka.md, with another port, on a real broker and a real Spark."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rheos.core.errors import ConfigurationError
from rheos.ops.control.commands import JobClient
from rheos.ops.control.registry import Registry
from rheos.ops.servers.server import free_port
from rheos.testing.servers import KafkaBroker
from tests.docs.walks import WITHIN_S, Shell, has_checkpoint, steps
from tests.waiting import wait_for

PAGE = Path(__file__).parents[2] / "docs" / "kafka.md"
PORT = "9092"


@pytest.fixture
def walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    pytest.importorskip("confluent_kafka", reason="the extra rheos[kafka] is not installed")
    try:
        KafkaBroker().install()
    except ConfigurationError as error:
        pytest.skip(f"there is no Kafka: {error.what}")
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    shell = Shell(tmp_path)
    yield shell
    for record in Registry().records():
        JobClient(record, WITHIN_S).cancel()
    shell.run("kill $(jobs -p); wait\n")
    shell.close()


def counts(brokers: str) -> Counter[str]:
    """Return the number of committed records of each page in the topic `counts`."""
    from tests.connectors.kafka.topics import read

    return Counter(record.key.decode() for record in read(brokers, "counts") if record.key)


def wait_until(shell_said: Path, brokers: str, each: int) -> None:
    wanted = {f"page-{number}": each for number in range(10)}
    try:
        wait_for(lambda: counts(brokers) == wanted, WITHIN_S)
    except AssertionError:
        raise AssertionError(f"not {each} of each page: {shell_said.read_text()}") from None


@pytest.mark.spark
@pytest.mark.deploy
@pytest.mark.slow
def test_the_walk_of_the_page_runs(walk: Shell, tmp_path: Path) -> None:
    port = str(free_port())
    brokers = f"127.0.0.1:{port}"
    printed = {}
    log = tmp_path / "broker.log"
    for step in steps(PAGE):
        code = step.code.replace(PORT, port)
        if step.file is not None:
            (tmp_path / step.file).write_text(code)
            continue
        if "show.py" in code:
            wait_until(tmp_path / "visits-2.log", brokers, 200)
        printed[step.code] = walk.run(code)
        if "servers kafka" in code:
            wait_for(lambda: log.exists() and "listens at" in log.read_text(), WITHIN_S)
        elif code.startswith("rheos run visits.py --parallelism 1"):
            # The page's reader takes longer than the job: the savepoint is to have something in it.
            wait_until(tmp_path / "visits.log", brokers, 100)
            wait_for(lambda: any(map(has_checkpoint, Registry().records())), WITHIN_S)
    (shown,) = [text for code, text in printed.items() if "show.py" in code]
    rows = re.findall(r"(page-\d)\W+(\d+)\W+(\d+)", shown)
    assert rows == [(f"page-{number}", "200", "200") for number in range(10)]
    assert Registry().records() == []


def test_no_block_is_overlooked() -> None:
    text = PAGE.read_text()
    assert len(steps(PAGE)) == text.count("```python") + text.count("```sh\n") == 9
    assert all(step.file is not None for step in steps(PAGE) if "import rheos" in step.code)
