"""Lines from a TCP server: which are emitted, which a position contains, and reconnects."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rheos as rh
from rheos.connectors.socket.reader import MAX_LINE_BYTES, LineCutter
from rheos.connectors.socket.source import SocketSource
from rheos.core.connectors.contract import Pending, Polled, SplitReader
from rheos.core.connectors.rejected_records import OnError
from rheos.core.errors import InputError, ProgramError
from rheos.testing import check_source
from tests.connectors.ports import Probe
from tests.waiting import wait_for

NUMBER = pa.schema({"n": pa.int64()})


class Lines:
    """Server that sends the same bytes to each client, and then keeps the connection or closes it."""

    def __init__(self, data: bytes, *, ends: bool = False) -> None:
        self.data = data
        self._ends = ends
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._connections: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            connection.sendall(self.data)
            if self._ends:
                connection.close()
            else:
                self._connections.append(connection)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()
        for connection in self._connections:
            connection.close()


@contextmanager
def serving(data: bytes, *, ends: bool = False) -> Iterator[Lines]:
    server = Lines(data, ends=ends)
    try:
        yield server
    finally:
        server.close()


def numbers(address: str, on_error: OnError = "fail") -> SocketSource:
    return rh.socket.source(address, format=rh.formats.json(), schema=NUMBER, on_error=on_error)


def opened(source: SocketSource, probe: Probe, position: bytes | None = None) -> SplitReader:
    [split] = source.splits()
    return source.open(split, position, probe.context())


def rows(reader: SplitReader, count: int, max_rows: int = 1000) -> list[dict[str, object]]:
    """Return this number of rows, as they arrive."""
    found: list[dict[str, object]] = []

    def polled() -> Polled | None:
        given = reader.poll(min(max_rows, count - len(found)))
        return None if isinstance(given, Pending) else given

    while len(found) < count:
        batch = wait_for(polled)
        assert isinstance(batch, pa.RecordBatch)
        found += batch.to_pylist()
    return found


def test_the_source_keeps_the_contract() -> None:
    lines = b"".join(b'{"n": %d}\n' % n for n in range(30))
    with serving(lines + b'{"n": ') as server:
        read = check_source(numbers(server.address), endless_rows=30, max_rows=(7, 1000), positions=4)
    assert read == {"socket": [{"n": n} for n in range(30)]}


def test_buffered_lines_are_in_the_position_and_emitted_once() -> None:
    with serving(b'{"n": 1}\r\n{"n": 2}\n\nnone\n{"n": 3}\n') as server:
        probe = Probe()
        first = opened(numbers(server.address, "skip"), probe)
        assert rows(first, 1) == [{"n": 1}]
        position = first.position()
        first.close()
    again = Probe()
    # The server is gone, and what it had sent is not.
    second = opened(numbers(server.address, "skip"), again, position)
    assert rows(second, 2, max_rows=1) == [{"n": 2}, {"n": 3}]
    wait_for(lambda: isinstance(second.poll(1), Pending) and again.counts.get("connect_failures", 0))
    second.close()
    assert probe.rejected == []
    assert [(row["address"], row["record"]) for row in again.rejected] == [(server.address, "none")]
    assert again.counts["skipped"] == 1


def test_the_source_reconnects_and_emits_the_incomplete_last_line() -> None:
    with serving(b"one\ntwo", ends=True) as server:
        probe = Probe()
        reader = opened(rh.socket.source(server.address), probe)
        assert [row["value"] for row in rows(reader, 4)] == ["one", "two", "one", "two"]
        reader.close()
    assert probe.counts["connections"] >= 2


def test_a_bad_line_ends_the_job_with_its_address() -> None:
    with serving(b'{"n": 1}\n{"n": "me"}\n') as server:
        reader = opened(numbers(server.address), Probe())
        with pytest.raises(InputError, match="column 'n' must be a number, but is a string") as raised:
            rows(reader, 2)
        reader.close()
    assert raised.value.what.startswith(f"{server.address}: ")


@given(st.lists(st.binary(max_size=12)), st.integers(1, 9))
def test_lines_do_not_depend_on_how_bytes_come(pieces: list[bytes], size: int) -> None:
    data = b"".join(pieces)
    whole, cut = LineCutter(max_bytes=8), LineCutter(max_bytes=8)
    expected = whole.cut(data) + whole.end()
    found = [line for at in range(0, len(data), size) for line in cut.cut(data[at : at + size])]
    assert (found + cut.end(), cut.too_long) == (expected, whole.too_long)


def test_a_line_that_is_too_long_is_dropped() -> None:
    cutter = LineCutter(max_bytes=4)
    assert cutter.cut(b"ab\n12345") == [b"ab"]
    assert cutter.cut(b"6789") == []
    assert cutter.cut(b"0\ncd\n12345\nef") == [b"cd"]
    assert (cutter.end(), cutter.too_long) == ([b"ef"], 2)


@pytest.mark.parametrize("address", ["localhost", ":9", "a:b", "a:70000", 7])
def test_invalid_addresses_are_refused(address: str) -> None:
    with pytest.raises(ProgramError, match="is not of the form host:port"):
        rh.socket.source(address)


def test_formats_that_have_no_lines_or_a_header_are_refused() -> None:
    with pytest.raises(ProgramError, match="does not encode rows as lines"):
        rh.socket.source("localhost:9", format=rh.formats.arrow(), schema=NUMBER)
    with pytest.raises(ProgramError, match="a socket has no CSV header line"):
        rh.socket.source("localhost:9", format=rh.formats.csv(), schema=NUMBER)


@given(st.lists(st.binary(max_size=12)))
def test_a_line_in_single_bytes_is_the_line(pieces: list[bytes]) -> None:
    data = b"".join(pieces)
    whole, bytewise = LineCutter(max_bytes=8, keep_blank=True), LineCutter(max_bytes=8, keep_blank=True)
    expected = whole.cut(data) + whole.end()
    found = [line for at in range(len(data)) for line in bytewise.cut(data[at : at + 1])]
    assert (found + bytewise.end(), bytewise.too_long) == (expected, whole.too_long)


def test_a_line_that_is_too_long_is_a_bad_line() -> None:
    with serving(b"x" * (MAX_LINE_BYTES + 1) + b'\n{"n": 1}\n') as server:
        reader = opened(numbers(server.address), Probe())
        with pytest.raises(InputError, match="a line exceeds 1048576 bytes"):
            rows(reader, 2)
        reader.close()
        probe = Probe()
        reader = opened(numbers(server.address, "skip"), probe)
        assert rows(reader, 1) == [{"n": 1}]
        reader.close()
    assert probe.counts["skipped"] == 1


@pytest.mark.parametrize("format", [rh.formats.text(), rh.formats.json(), rh.formats.csv(header=False)])
def test_hostile_bytes_affect_only_their_own_lines(format: Any) -> None:
    """Check that the reader never hangs, and fails only with an InputError, whatever a peer sends."""
    schema = None if format.name == "text" else NUMBER
    good = {"text": b"7", "json": b'{"n": 7}', "csv": b"7"}[format.name]
    bad = [b"\xff\xfe", b"\0", b"[" * 5000, b'"', b"\x1b[2J", b"\r", b"1e999", b"NaN", b"\xed\xa0\x80"]
    data = b"".join(line + b"\n" + good + b"\n" for line in bad)
    with serving(data) as server:
        reader = opened(
            rh.socket.source(server.address, format=format, schema=schema, on_error="skip"), Probe()
        )
        found: list[Any] = []
        while sum(row in ({"n": 7}, {"value": "7"}) for row in found) < len(bad):
            found += rows(reader, 1)
        reader.close()


def test_a_lost_server_is_noticed_without_sending() -> None:
    with serving(b"one\n") as server:
        reader = opened(rh.socket.source(server.address), Probe())
        assert rows(reader, 1) == [{"value": "one"}]
        connection = reader._connection  # type: ignore[attr-defined]
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_KEEPIDLE"):
            asked = [socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT]
            idle, every, times = (connection.getsockopt(socket.IPPROTO_TCP, each) for each in asked)
            assert idle + every * times <= 60
        reader.close()


def test_explain_states_which_rows_a_failure_loses() -> None:
    assert rh.socket.source("localhost:9").lost_by_failure() == (
        "lines received since the last checkpoint, because a socket cannot be read again"
    )
    made = [{"acknowledge": "received"}, {}]
    lost = [rh.http.source(port=0, schema=NUMBER, **each).lost_by_failure() for each in made]
    assert lost == [
        "rows received since the last checkpoint, because requests are answered earlier",
        None,
    ]
    env = rh.Environment()
    env.from_source(rh.socket.source("localhost:9"), name="lines").collect("rows")
    assert "loses     if the job fails: lines received since the last checkpoint" in env.explain()
