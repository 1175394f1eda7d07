"""Connection options of Redis: valid values, and how they are shown. No server is needed."""

from __future__ import annotations

import pytest

from rheos.connectors.redis.client_options import RedisOptions, may_pass
from rheos.core.errors import ProgramError

pytest.importorskip("redis")


@pytest.mark.parametrize("special", "/?#")
def test_a_password_that_is_not_encoded_is_not_shown(special: str) -> None:
    with pytest.raises(ProgramError, match="not a valid URL for a Redis") as raised:
        RedisOptions.of(f"redis://:s3cr{special}et=@host:6379/0")
    assert "s3cr" not in str(raised.value)
    assert "percent-encode" in str(raised.value)


def test_passwords_in_the_query_are_not_shown() -> None:
    options = RedisOptions.of("rediss://host?password=open%20sesame&ssl_password=hearts")
    assert options.redact("open sesame, hearts") == "***, ***"
    assert "sesame" not in repr(options)


@pytest.mark.parametrize("option", ["decode_responses=True", "protocol=3", "max_connections="])
def test_the_url_cannot_set_options_of_rheos(option: str) -> None:
    name = option.partition("=")[0]
    with pytest.raises(ProgramError, match=f"the option '{name}' is set by Rheos"):
        RedisOptions.of(f"redis://host?{option}")


def test_every_call_has_a_timeout() -> None:
    for url, given, wanted in (
        ("redis://host", None, (5.0, 5.0)),
        ("unix:///tmp/redis.sock", None, (5.0, 5.0)),
        ("redis://host", {"socket_timeout": 60, "socket_connect_timeout": 1}, (60, 1)),
        ("redis://host?socket_timeout=7", None, (7.0, 5.0)),
    ):
        connection = RedisOptions.of(url, given).connection()
        assert (connection.socket_timeout, connection.socket_connect_timeout) == wanted


def test_a_server_that_temporarily_lacks_replicas_is_retried() -> None:
    import redis

    assert may_pass(redis.ResponseError("NOREPLICAS Not enough good replicas to write."))
    assert not may_pass(redis.ResponseError("WRONGTYPE Operation against a key"))
