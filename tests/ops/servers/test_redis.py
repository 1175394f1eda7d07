"""The real Redis: its data survive a kill, and it requires a password."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rheos.core.errors import ConfigurationError
from rheos.ops.servers import redis as module
from rheos.ops.servers.redis import RedisServer


def test_redis_keeps_its_data_when_killed(redis_server: RedisServer) -> None:
    import redis

    def client() -> redis.Redis:
        return redis.Redis.from_url(redis_server.url)

    client().set("kept", b"with the server")
    redis_server.kill()
    with pytest.raises(redis.ConnectionError):
        client().get("kept")
    redis_server.start()
    assert client().get("kept") == b"with the server"
    assert client().config_get("bind") == {"bind": "127.0.0.1"}


def test_redis_requires_its_password(redis_server: RedisServer) -> None:
    import redis

    with pytest.raises(redis.AuthenticationError):
        redis.Redis.from_url(f"redis://{redis_server.address}").ping()
    config = redis_server.log.parent / "redis.conf"
    assert config.stat().st_mode & 0o077 == 0


def test_the_error_for_a_missing_redis_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(module, "_WHEEL", "no_such_wheel")
    with pytest.raises(ConfigurationError, match="redis-server is not installed") as raised:
        RedisServer(data=tmp_path).start()
    assert "apt install redis-server" in (raised.value.hint or "")
