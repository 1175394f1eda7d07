"""Log messages of client libraries: they go to the log, at a limited rate, and know their operator."""

from __future__ import annotations

import ast
import logging
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from rheos.connectors import client_logs
from rheos.connectors.calls.bounded_calls import BoundedCalls
from rheos.connectors.calls.outside_calls import operator_here, thread, works_for
from rheos.connectors.client_logs import LOGGERS_OF_LIBRARIES, RepeatedMessageFilter, is_of_client
from rheos.connectors.registration import CONNECTORS as REGISTERED
from rheos.core.protocol.ids import JobId, JobKey
from rheos.ops.control.job_logs import LogFile, log_path, newest_lines
from rheos.runtimes.host.log_capture import LogCapture

CONNECTORS = Path(client_logs.__file__).parent
OF_DATA = {"bson", "duckdb", "msgspec", "numpy", "polars", "pyarrow"}
"""Libraries that speak to no server, and log nothing."""


def imported() -> dict[str, set[str]]:
    """Return the libraries that connectors import, with the importing modules."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in CONNECTORS.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names = [node.module]
            elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                names = [str(node.args[0].value)] if called == "import_module" else []
            for name in names:
                found[name.partition(".")[0]].add(path.relative_to(CONNECTORS).as_posix())
    for each in REGISTERED.registered():
        for name in () if each.registration is None else each.registration.requires:
            found[name.partition(".")[0]].add(each.name)
    return found


def test_the_loggers_of_every_client_library_are_known() -> None:
    """Check that `LOGGERS_OF_LIBRARIES` names the loggers of every library, also of connectors added
    later."""
    libraries = imported()
    known = {"rheos", *sys.stdlib_module_names, *OF_DATA, *LOGGERS_OF_LIBRARIES}
    assert {name: places for name, places in libraries.items() if name not in known} == {}
    assert set(LOGGERS_OF_LIBRARIES) <= set(libraries), "a library that no connector imports any more"


def test_threads_of_connectors_work_for_the_operator_that_started_them() -> None:
    """Check that connectors start every thread by `threads.thread`, also those added later."""
    own = [
        path.relative_to(CONNECTORS).as_posix()
        for path in CONNECTORS.rglob("*.py")
        if "threading.Thread(" in path.read_text() and not {"calls", "listener"} & {*path.parts}
    ]
    assert own == []
    seen: list[str | None] = []
    works_for(lambda: "late")
    try:
        started = thread(lambda: seen.append(operator_here()), "a client")
        calls = BoundedCalls()
        works_for(lambda: "late")
        calls.run("a call", 20, lambda progressed: seen.append(operator_here()))
        works_for(lambda: "orders")
        started.start()
        started.join(20)
    finally:
        works_for(None)
        calls.close()
    assert seen == ["late", "late"]


@pytest.mark.parametrize(
    ("logger", "expected"),
    [
        ("rheos.kafka.client-0a1b", True),
        ("psycopg.pool", True),
        ("botocore.credentials", True),
        ("rheos.sinks", False),
        ("psycopgs", False),
        ("orders", False),
    ],
)
def test_loggers_of_clients_are_recognised(logger: str, expected: bool) -> None:
    assert is_of_client(logger) is expected


def test_repeated_messages_of_clients_are_logged_once_in_half_a_minute() -> None:
    once = RepeatedMessageFilter()

    def shown(at_s: float, text: str) -> str | None:
        record = logging.makeLogRecord({"name": "rheos.kafka", "msg": text, "created": at_s})
        return record.getMessage() if once.filter(record) else None

    away = "FAIL [rheos-source#producer-{}] b-1:9092: Connection refused (after {}ms in state CONNECT)"
    assert shown(100.0, away.format(1, 0)) == away.format(1, 0)
    assert shown(100.1, away.format(1, 3)) is None
    assert shown(129.0, away.format(2, 0)) is None
    assert shown(129.0, away.format(1, 0).replace("b-1", "b-2")) is not None
    assert shown(130.0, away.format(1, 0)) == f"{away.format(1, 0)} (and 2 times more before)"
    assert shown(10.0, away.format(1, 0)) is not None  # The clock was set back.
    for n in range(2000):
        shown(20.0, f"broker b-{n} is away")
    assert len(once._logged) <= 256


@pytest.fixture
def capture() -> Iterator[LogCapture]:
    made = LogCapture(logging.INFO)
    made.open()
    yield made
    made.close()


@pytest.mark.parametrize("library", sorted(LOGGERS_OF_LIBRARIES))
def test_in_a_worker_lines_of_clients_are_kept_and_not_printed(
    capture: LogCapture,
    library: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    forget_handlers(monkeypatch)
    for name in LOGGERS_OF_LIBRARIES[library]:
        for _ in range(100):
            logging.getLogger(f"{name}.part").warning("the server is away")
    logging.getLogger("rheos.sinks").warning("%s; the sink retries until it can publish")
    logging.getLogger("orders").warning("a negative amount")
    lines, dropped = capture.take()
    assert dropped == 0
    assert [line.logger for line in lines] == [
        *(f"{name}.part" for name in LOGGERS_OF_LIBRARIES[library]),
        "rheos.sinks",
        "orders",
    ]
    assert capsys.readouterr().err == "a negative amount\n"


@pytest.mark.parametrize("library", sorted(LOGGERS_OF_LIBRARIES))
def test_in_a_driver_lines_of_clients_are_kept_and_not_printed(
    library: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    forget_handlers(monkeypatch)
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path))
    log = LogFile(JobKey("job-1"), JobId("job"))
    names = [f"{name}.{tmp_path.name}" for name in LOGGERS_OF_LIBRARIES[library]]
    for name in names:
        for _ in range(100):
            logging.getLogger(name).warning("the server is away")
    log.close()
    assert [line.logger for line in newest_lines(log_path(JobKey("job-1")), 100)] == names
    assert capsys.readouterr().err == ""


def forget_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove pytest's handlers, as in a program that has not configured logging."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [h for h in root.handlers if isinstance(h, LogCapture)])
