"""Heads of requests: what is parsed, and what is refused because two programs could read it
differently."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rheos.connectors.listener.head import HttpError, parse_head

GOOD = (
    b"GET /a?b=1&b=2 HTTP/1.1\r\nHost: localhost\r\nX-A: 1 \r\nx-a:2\r\nAuthorization: bearer t\r\n\r\n"
)


def test_a_head_is_parsed() -> None:
    head = parse_head(GOOD)
    assert (head.method, head.path, head.query(), head.bearer) == ("GET", "/a", {"b": ["1", "2"]}, "t")
    assert (head.headers["HOST"], head.headers["x-A"], head.content_length) == ("localhost", "1, 2", 0)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET http://evil/ HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\x00\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n".encode("latin-1"), 400),
        (b"GET / HTTP/1.1\r\nContent-Length: " + b"9" * 16 + b"\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 411),
        (b"GET / HTTP/1.1\r\n" + b"X: 1\r\n" * 101 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n", 400),
    ],
)
def test_ambiguous_heads_are_refused(data: bytes, status: int) -> None:
    with pytest.raises(HttpError) as refused:
        parse_head(data)
    assert refused.value.status == status


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=200)
    | st.tuples(st.integers(0, len(GOOD) - 1), st.binary(max_size=3)).map(
        lambda cut: GOOD[: cut[0]] + cut[1] + GOOD[cut[0] :]
    )
)
def test_any_bytes_are_a_head_or_are_refused(data: bytes) -> None:
    try:
        head = parse_head(data)
        head.query()
    except HttpError as error:
        status = error.status
    else:
        status = 400 if head.target.startswith("/") else 0
    assert 400 <= status < 500
