"""Lines logged in a worker are kept with the operator whose code logged them, within bounds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

import pytest

from rheos.connectors.calls.outside_calls import works_for
from rheos.core.protocol.log_lines import MAX_ERROR_CHARS, MAX_MESSAGE_CHARS, LogLine
from rheos.runtimes.host.io import ThreadedIo
from rheos.runtimes.host.log_capture import MAX_LINES, LogCapture
from tests.waiting import wait_for

SHOP = logging.getLogger("shop.orders")


@pytest.fixture
def capture() -> Iterator[LogCapture]:
    made = LogCapture(logging.INFO)
    made.open()
    yield made
    made.close()
    works_for(None)


def said(capture: LogCapture) -> list[tuple[str | None, str]]:
    return [(line.operator, line.message) for line in capture.take()[0]]


def test_a_line_has_the_operator_that_logged_it(capture: LogCapture) -> None:
    SHOP.info("before the slot")
    at = ["parse"]
    works_for(lambda: at[0])
    SHOP.info("a bad price: %s", "x")
    at[0] = "count"
    SHOP.info("counted")
    SHOP.debug("not of the level")
    assert said(capture) == [
        (None, "before the slot"),
        ("parse", "a bad price: x"),
        ("count", "counted"),
    ]
    assert said(capture) == []


def test_lines_of_other_threads_have_the_submitting_operator(capture: LogCapture) -> None:
    at = ["read"]
    works_for(lambda: at[0])
    io = ThreadedIo(1, wake=lambda: None)

    def log(text: str) -> Callable[[], None]:
        return lambda: SHOP.info(text)

    async def ask() -> None:
        SHOP.info("asked")

    async def nothing() -> None:
        await asyncio.sleep(0)

    wait_for(io.submit(log("read")).done)
    loop = io.event_loop()
    at[0] = "another"
    wait_for(io.submit(log("written")).done)
    wait_for(loop.submit(ask).done)
    loop.close(nothing)
    io.close()
    assert said(capture) == [("read", "read"), ("another", "written"), ("read", "asked")]


def test_lines_are_bounded_and_dropped_ones_are_counted(capture: LogCapture) -> None:
    for n in range(MAX_LINES + 3):
        SHOP.info("%d", n)
    lines, dropped = capture.take()
    assert ([line.message for line in lines[-1:]], len(lines), dropped) == (["999"], MAX_LINES, 3)
    try:
        raise ValueError("y" * 2 * MAX_ERROR_CHARS)
    except ValueError:
        SHOP.exception("x" * 2 * MAX_MESSAGE_CHARS)
    ((line,), dropped) = capture.take()
    assert (len(line.message), len(line.error), dropped) == (MAX_MESSAGE_CHARS, MAX_ERROR_CHARS, 0)
    assert line.level == logging.ERROR


def test_closing_restores_the_logging_configuration() -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    capture = LogCapture(logging.DEBUG)
    capture.open()
    assert root.level == logging.DEBUG
    capture.close()
    assert (root.level, root.handlers) == before


def test_a_message_that_does_not_fit_its_arguments_is_no_error(
    capture: LogCapture, capsys: pytest.CaptureFixture[str]
) -> None:
    # Called on its own handler, as pytest's handler raises such an error.
    capture.handle(SHOP.makeRecord("shop", logging.INFO, "", 0, "%d rows", ("many",), None))
    SHOP.info("more")
    assert said(capture) == [(None, "more")]
    assert "Logging error" in capsys.readouterr().err


def test_a_line_has_the_fields_of_the_protocol(capture: LogCapture) -> None:
    SHOP.warning("late")
    ((line,), _) = capture.take()
    assert line == LogLine(at_ms=line.at_ms, level=30, logger="shop.orders", message="late")


@pytest.mark.parametrize("name", ["google", "s3fs"])
def test_a_client_that_stops_propagating_later_is_captured_once(
    capture: LogCapture, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    logger = logging.getLogger(name)
    child = logger.getChild("auth")
    child.warning("no token")
    monkeypatch.setattr(logger, "propagate", False)
    child.warning("no token at all")
    child.debug("not of the level")
    assert said(capture) == [(None, "no token"), (None, "no token at all")]
    capture.close()
    assert not [each for each in logger.handlers if type(each).__module__.startswith("rheos")]
