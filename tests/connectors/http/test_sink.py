"""Rows for browsers: events that a reader sees who connects early, late or again, or is slow."""

from __future__ import annotations

import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.http.events import EventWriter, UnsentRows
from rheos.core.errors import ProgramError
from rheos.core.protocol.ids import CheckpointId
from tests.connectors.http.requests import WITHIN_S, ask
from tests.connectors.ports import batch_of, sink_context
from tests.waiting import wait_for

SCHEMA = pa.schema({"n": pa.int64(), "text": pa.string()})


class Reader:
    """Client of server-sent events."""

    def __init__(self, address: str, path: str = "/events", **headers: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=WITHIN_S)
        self._connection.request(
            "GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )
        self._answer = self._connection.getresponse()
        self.headers: Mapping[str, str] = dict(self._answer.headers)

    def events(self, count: int) -> list[dict[str, str]]:
        """Return the next events, without comments and retry intervals."""
        found: list[dict[str, str]] = []
        event: dict[str, str] = {}
        while len(found) < count:
            line = self._answer.fp.readline().decode()
            assert line, "the connection has ended"
            name, _, value = line.rstrip("\n").partition(": ")
            if line == "\n":
                found += [event] if "data" in event else []
                event = {}
            elif name:
                event[name] = value
        return found

    def close(self) -> None:
        self._answer.close()
        self._connection.close()


@contextmanager
def showing(**more: Any) -> Iterator[tuple[EventWriter, str]]:
    sink = rh.http.sink(port=0, **more)
    sink.validate(SCHEMA)
    writer = sink.open(sink_context(SCHEMA))
    assert isinstance(writer, EventWriter)
    listener = writer._listener
    try:
        wait_for(lambda: listener._server is not None)
        yield writer, listener.address
    finally:
        writer.close()


def write(writer: EventWriter, *numbers: int) -> None:
    writer.write(batch_of(SCHEMA, *({"n": n, "text": f"two\nlines {n}"} for n in numbers)))


def data(*numbers: int) -> list[str]:
    return [f'{{"n":{n},"text":"two\\nlines {n}"}}' for n in numbers]


def test_a_reader_receives_the_last_rows_and_new_ones() -> None:
    with showing(keep=2) as (writer, address):
        write(writer, 1, 2, 3)
        reader = Reader(address)
        assert [event["data"] for event in reader.events(2)] == data(2, 3)
        write(writer, 4)
        assert writer.prepare(CheckpointId(1)) == []
        [fourth] = reader.events(1)
        assert fourth["data"] == data(4)[0]
        reader.close()
        assert reader.headers["Content-Type"] == "text/event-stream"
        assert "Access-Control-Allow-Origin" not in reader.headers


def test_a_reader_that_reconnects_continues_and_learns_what_it_missed() -> None:
    with showing(keep=2) as (writer, address):
        write(writer, 1, 2)
        first = Reader(address)
        last = first.events(1)[0]["id"]
        first.close()
        again = Reader(address, Last_Event_ID=last)
        assert [event["data"] for event in again.events(1)] == data(2)
        again.close()
        write(writer, 3, 4, 5)
        late = Reader(address, Last_Event_ID=last)
        missed, *rows = late.events(3)
        assert missed == {"event": "missed", "data": '{"rows": 2}'}
        assert [event["data"] for event in rows] == data(4, 5)
        late.close()
        for other in ("of-7", f"{last}9999999999999999999", "nonsense"):
            stranger = Reader(address, Last_Event_ID=other)
            assert [event["data"] for event in stranger.events(2)] == data(4, 5)
            stranger.close()


def test_kept_rows_are_bounded_and_numbered() -> None:
    kept = UnsentRows(3)
    kept.add([b"0", b"1"])
    assert kept.after(0, 10, 0) == (0, [b"0", b"1"])
    assert kept.after(2, 10, 0) == (2, [])
    kept.add([b"5", b"6"], skipped=3)
    assert kept.after(2, 10, 0) == (5, [b"5", b"6"])
    kept.add([b"7", b"8"])
    assert kept.after(0, 2, 0) == (6, [b"6", b"7"])
    assert (kept.after(8, 2, 0), kept.end) == ((8, [b"8"]), 9)


def test_the_page_shows_strings_and_loads_nothing() -> None:
    with showing(path="/rows") as (_, address):
        page = ask(address, "/")
        assert page.status == 200
        assert 'new EventSource("/rows" + location.search)' in page.content
        assert "textContent" in page.content
        assert "innerHTML" not in page.content
        assert page.headers["Content-Security-Policy"].startswith("default-src 'none'; ")
        assert ask(address, "/other").status == 404
        assert ask(address, "/rows", "x").status == 405
        assert ask(address, "/rows", headers={"Host": "evil.example"}).status == 403


def test_a_token_may_be_in_the_url_and_other_origins_must_be_named() -> None:
    with showing(token="sesame", cors="https://app.example.com") as (writer, address):
        write(writer, 1)
        assert ask(address, "/events").status == 401
        assert ask(address, "/").status == 401
        reader = Reader(address, "/events?token=sesame")
        assert reader.events(1)[0]["data"] == data(1)[0]
        assert reader.headers["Access-Control-Allow-Origin"] == "https://app.example.com"
        reader.close()


def test_one_subtask_listens_in_a_job_of_several() -> None:
    env = rh.Environment(parallelism=4, runtime="simulated")
    rows = env.from_source(rh.collection([{"n": n} for n in range(10)]))
    rows.sink_to(rh.http.sink(port=0), name="shown")
    with pytest.raises(ProgramError, match="allows at most 1 writing subtask\\(s\\), not"):
        rows.sink_to(rh.http.sink(port=0), parallelism=2)
    assert env.execute().status.operators[-1].records_in == 10
    # The others have writers, too, which would take the port.
    other = rh.http.sink(port=0).open(sink_context(SCHEMA, subtask=1))
    assert isinstance(other, EventWriter)
    assert other._thread is None
    other.close()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"host": "0.0.0.0"}, "accepts requests from everyone in the network"),
        ({"path": "/"}, "the path / is reserved for the page"),
        ({"path": "events"}, "is not a path"),
        ({"keep": -1}, "is not between"),
        ({"cors": "a\nb"}, "is not an origin"),
    ],
)
def test_invalid_arguments_are_refused_at_their_line(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ProgramError, match=says):
        rh.http.sink(**{"port": 0, **given})
