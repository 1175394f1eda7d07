"""Client of the real server, and keys of single tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def prefix() -> str:
    return f"t{uuid.uuid4().hex[:12]}"


@pytest.fixture
def redis(redis_server: Any) -> Iterator[Any]:
    import redis

    with redis.Redis.from_url(redis_server.url, decode_responses=True) as client:
        yield client
