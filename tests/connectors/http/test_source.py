"""Webhooks: when a request is answered, which requests a position contains, and which are refused."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.http import webhook
from rheos.connectors.http.request_payloads import payloads_of
from rheos.connectors.http.source import WebhookSource
from rheos.connectors.http.webhook import Webhook
from rheos.connectors.listener.admission import AdmissionCounts
from rheos.connectors.listener.bounds import MAX_WAITING
from rheos.core.connectors.contract import Pending
from rheos.core.errors import ConfigurationError, ProgramError
from tests.connectors.http.requests import Asking, ask
from tests.connectors.ports import Probe
from tests.waiting import wait_for

SCHEMA = pa.schema({"n": pa.int64()})


def hook(**more: Any) -> WebhookSource:
    return rh.http.source(port=0, path="/rows", schema=SCHEMA, **more)


class Running:
    """The only subtask of a webhook source."""

    def __init__(self, source: WebhookSource, position: bytes | None = None) -> None:
        self.probe = Probe()
        ctx = self.probe.context()
        client = ctx.client = source.client(ctx)
        assert isinstance(client, Webhook)
        self.client = client
        [split] = source.splits()
        self.reader = source.open(split, position, ctx)
        self.address = wait_for(self._address)

    def _address(self) -> str | None:
        server = self.client._listener._server
        return None if server is None else self.client._listener.address

    def connections(self) -> AdmissionCounts:
        server = self.client._listener._server
        assert server is not None
        return server.counts()

    def rows(self, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            polled = self.reader.poll(count - len(found))
            if isinstance(polled, pa.RecordBatch):
                found += polled.column("n").to_pylist()
        return found

    def has_none(self) -> bool:
        return isinstance(self.reader.poll(1), Pending)

    def taken(self) -> int:
        return self.client._taken

    def checkpoint(self, position: bytes | None = None) -> bytes:
        """Complete a checkpoint."""
        position = self.reader.position() if position is None else position
        self.client.completed({"requests": position})
        return position

    def close(self) -> None:
        self.reader.close()
        self.client.close()


@contextmanager
def running(source: WebhookSource, position: bytes | None = None) -> Iterator[Running]:
    job = Running(source, position)
    try:
        yield job
    finally:
        job.close()


def test_a_request_is_answered_when_a_checkpoint_has_its_rows() -> None:
    with running(hook()) as job:
        first = Asking(job.address, "/rows", '[{"n": 1}, {"n": 2}]')
        assert job.rows(1) == [1]
        before = job.reader.position()
        second = Asking(job.address, "/rows", '{"n": 3}')
        wait_for(lambda: job.taken() == 2)
        job.checkpoint(before)
        assert first.answer().status == 200
        assert first.answer().content == {"rows": 2, "duplicate": False}
        assert not second.is_done
        job.checkpoint()
        assert second.answer().status == 200
        assert job.rows(2) == [2, 3]
    with running(hook(), before) as again:
        # What waited is in the position, and what came later is for its sender to send again.
        assert again.rows(1) == [2]
        assert again.has_none()


def test_waiting_senders_are_asked_to_retry_when_the_job_ends() -> None:
    with running(hook()) as job:
        asking = Asking(job.address, "/rows", '{"n": 1}')
        wait_for(lambda: job.taken() == 1)
    assert asking.answer().status == 503
    assert asking.answer().headers["Retry-After"] == "1"


def test_a_repeated_request_with_a_key_is_accepted_once() -> None:
    keyed = {"headers": {"Idempotency-Key": "order 7"}}
    with running(hook()) as job:
        first = Asking(job.address, "/rows", '{"n": 7}', **keyed)
        wait_for(lambda: job.taken() == 1)
        again = Asking(job.address, "/rows", '{"n": 7}', **keyed)
        assert job.rows(1) == [7]
        wait_for(lambda: job.has_none() and job.probe.counts.get("duplicates"))
        assert not again.is_done  # It has nothing to rely on either.
        position = job.checkpoint()
        assert first.answer().content == {"rows": 1, "duplicate": False}
        assert again.answer().content == {"rows": 1, "duplicate": True}
        lost = Asking(job.address, "/rows", '{"n": 8}', headers={"Idempotency-Key": "8"})
        assert job.rows(1) == [8]
    assert lost.answer().status == 503
    with running(hook(), position) as restored:
        assert ask(restored.address, "/rows", '{"n": 7}', **keyed).content["duplicate"]
        new = Asking(restored.address, "/rows", '{"n": 8}', headers={"Idempotency-Key": "8"})
        assert restored.rows(1) == [8]
        restored.checkpoint()
        assert new.answer().content == {"rows": 1, "duplicate": False}


def test_the_number_of_remembered_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "REMEMBERED_KEYS", 2)
    with running(hook(acknowledge="received")) as job:
        sent = [
            ask(job.address, "/rows", '{"n": 1}', headers={"Idempotency-Key": key}).content["duplicate"]
            for key in ("a", "b", "b", "c", "b", "a")
        ]
    assert sent == [False, False, True, False, True, False]


def test_received_answers_at_once_until_the_buffer_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "_HELD_BYTES", 10)
    with running(hook(acknowledge="received")) as job:
        answers = [ask(job.address, "/rows", '{"n": 1}') for _ in range(3)]
        assert [answer.status for answer in answers] == [202, 202, 429]
        assert answers[2].headers["Retry-After"] == "1"
        assert job.rows(2) == [1, 1]
        assert ask(job.address, "/rows", '{"n": 2}').status == 202
        assert job.rows(1) == [2]
        assert job.probe.counts == {"held_off": 1}


def test_a_body_with_a_bad_record_is_refused_as_a_whole() -> None:
    with running(hook(acknowledge="received")) as job:
        answer = ask(job.address, "/rows", '{"n": 1}\n{"n": "me"}\n')
        assert (answer.status, answer.content) == (
            400,
            {"error": "record 2 of 2: column 'n' must be a number, but is a string"},
        )
        assert ask(job.address, "/rows", '{"n": 5}').status == 202
        assert job.rows(1) == [5]
        assert job.probe.counts == {"refused": 1}


def test_requests_without_a_token_are_refused() -> None:
    with running(hook(token="open sesame", max_body_bytes=100)) as job:
        known = {"Authorization": "Bearer open sesame"}

        def status(path: str = "/rows", body: Any = '{"n": 1}', **more: Any) -> int:
            return ask(job.address, path, body, **{"headers": known, **more}).status

        assert status(headers={}) == 401
        assert status(headers={"Authorization": "Bearer open"}) == 401
        assert status("/rows?token=open%20sesame", headers={}) == 401
        assert status("/") == 404
        assert status(body=None) == 405
        assert status(body=b" " * 101) == 413
        assert status(body="") == 400
        assert status(headers={**known, "Idempotency-Key": "k" * 257}) == 400
        assert (
            status(body=iter([b'{"n": 1}']), headers={**known, "Transfer-Encoding": "chunked"}) == 411
        )
        assert job.taken() == 0
    assert "sesame" not in repr(hook(token="open sesame"))


def test_pages_of_other_sites_are_refused() -> None:
    with running(hook(acknowledge="received")) as job:
        assert ask(job.address, "/rows", '{"n": 1}', headers={"Host": "evil.example"}).status == 403
        assert ask(job.address, "/rows", '{"n": 1}', headers={"Origin": "http://evil"}).status == 403
        assert ask(job.address, "/rows", '{"n": 1}', headers={"Host": "localhost:1"}).status == 202


def test_an_invalid_request_closes_only_its_connection() -> None:
    with running(hook(acknowledge="received")) as job:
        host, port = job.address.split(":")
        for nonsense in (b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 40_000, b"\0" * 20_000):
            connection = socket.create_connection((host, int(port)), 60)
            # It may be closed while there is more to send.
            with connection, contextlib.suppress(ConnectionError):
                connection.sendall(nonsense)
                while connection.recv(4096):
                    pass
        assert ask(job.address, "/rows", '{"n": 1}').status == 202


def test_the_connection_of_a_lost_sender_is_freed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook, "_LOOK_EVERY_S", 0.001)
    request = b'POST /rows HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n{"n": 1}'
    with running(hook(max_connections=1)) as job:
        host, port = job.address.split(":")
        with socket.create_connection((host, int(port)), 60) as impatient:
            impatient.sendall(request)
            wait_for(lambda: job.taken() == 1)
        wait_for(lambda: job.connections().admitted == 0)
        patient = Asking(job.address, "/rows", '{"n": 2}')
        assert job.rows(2) == [1, 2], "what was taken stays"
        job.checkpoint()
        assert patient.answer().status == 200
        wait_for(lambda: job.has_none() and job.probe.counts.get("senders_gone") == 1)


def test_the_number_of_concurrent_requests_is_bounded() -> None:
    with running(hook(max_connections=2)) as job:
        patient = [Asking(job.address, "/rows", '{"n": 1}') for _ in range(2)]
        wait_for(lambda: job.connections().admitted == 2)
        answer = ask(job.address, "/rows", '{"n": 3}')
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert job.rows(2) == [1, 1]
        job.checkpoint()
        assert [each.answer().status for each in patient] == [200, 200]
        assert job.has_none()
        assert job.probe.counts == {"connections_refused": 1}


@pytest.mark.parametrize("token", [None, "open sesame"])
@pytest.mark.parametrize("sent", [b"", b"POST /rows HTTP/1.1\r\nX:", b"BODY"])
def test_slow_connections_do_not_exclude_senders(token: str | None, sent: bytes) -> None:
    """Check this with more slow connections than are served at a time, and than may wait."""
    if sent == b"BODY":
        sent = b"POST /rows HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\n{"
    known = {} if token is None else {"Authorization": f"Bearer {token}"}
    with running(hook(acknowledge="received", token=token)) as job, ExitStack() as slow:
        host, port = job.address.split(":")
        for _ in range(150):
            connection = slow.enter_context(socket.create_connection((host, int(port)), 60))
            with contextlib.suppress(OSError):  # Without a token it is answered at once.
                connection.sendall(sent)
        assert ask(job.address, "/rows", '{"n": 1}', headers=known).status == 202
        assert job.rows(1) == [1]
        assert job.connections().waiting <= MAX_WAITING


def test_a_port_in_use_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rheos.connectors.http.listener._BIND_WITHIN_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as other:
        source = rh.http.source(port=other.getsockname()[1], schema=SCHEMA)
        ctx = Probe().context()
        client = ctx.client = source.client(ctx)
        assert client is not None
        reader = source.open(source.splits()[0], None, ctx)

        def failed() -> ConfigurationError | None:
            try:
                reader.poll(1)
            except ConfigurationError as error:
                return error
            return None

        assert "cannot listen at 127.0.0.1" in wait_for(failed).what
        client.close()


def test_a_body_that_is_nested_too_deep_is_refused() -> None:
    with running(hook(acknowledge="received")) as job:
        for body in ("[" * 100_000, '{"n":' + "[" * 100_000 + "]" * 100_000 + "}"):
            answer = ask(job.address, "/rows", body)
            assert (answer.status, answer.content["error"][:15]) == (400, "record 1 of 1: ")
        assert job.taken() == 0


JSON = rh.formats.json()


@pytest.mark.parametrize(
    ("body", "format", "payloads"),
    [
        (b'{"a": 1}', JSON, [b'{"a": 1}']),
        (b'{\n "a": "x"\r\n}\n', JSON, [b'{  "a": "x"  }']),
        (b' [{"a": [1]}, {"a":2},3]', JSON, [b'{"a": [1]}', b'{"a":2}', b"3"]),
        (b'{"a": 1}\n\n{"a": 2}\n', JSON, [b'{"a": 1}', b'{"a": 2}']),
        (b'[{"a": 1}', JSON, [b'[{"a": 1}']),
        (b"[]", JSON, []),
        (b"  ", JSON, []),
        (b"one\r\n\ntwo", rh.formats.text(), [b"one", b"", b"two"]),
        (b"1,2\n\n3,4\n", rh.formats.csv(header=False), [b"1,2", b"3,4"]),
        (b"a\nb", rh.formats.arrow(), [b"a\nb"]),
        (b"", rh.formats.arrow(), []),
        (b"", rh.formats.text(), []),
    ],
)
def test_a_body_is_split_into_records(body: bytes, format: Any, payloads: list[bytes]) -> None:
    assert payloads_of(body, format) == payloads


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"host": "0.0.0.0"}, "accepts requests from everyone in the network"),
        ({"port": 70_000}, "is not a port"),
        ({"token": ""}, "token="),
        ({"token": "open\n"}, "token= must consist of printable ASCII characters"),
        ({"max_connections": 0}, "is not between 1 and 1024"),
        ({"max_connections": 1025}, "is not between 1 and 1024"),
        ({"path": "rows"}, "is not a path"),
        ({"acknowledge": "maybe"}, "is not known"),
        ({"max_body_bytes": 0}, "is not between 1 and"),
        ({"format": rh.formats.csv()}, "request bodies have no CSV header line"),
    ],
)
def test_invalid_arguments_are_refused_at_their_line(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ProgramError, match=says) as raised:
        rh.http.source(**{"port": 0, "schema": SCHEMA, **given})
    assert raised.value.site is not None
    assert raised.value.site.file == __file__
