"""The programs of docs/redis.md, with another address of the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.walks import steps

PAGE = Path(__file__).parents[2] / "docs" / "redis.md"


@pytest.fixture
def client(redis_server: Any) -> Any:
    import redis

    return redis.Redis.from_url(redis_server.url, decode_responses=True)


def run(file: str, redis_server: Any) -> dict[str, Any]:
    """Run the program with this name; return its results."""
    [code] = [step.code for step in steps(PAGE) if step.file == file]
    names: dict[str, Any] = {}
    exec(compile(code.replace("redis://localhost:6379", redis_server.url), file, "exec"), names)
    return names


def test_rows_become_keys(redis_server: Any, client: Any) -> None:
    run("counts.py", redis_server)
    assert client.hgetall("visits:home") == {"visits": "3"}
    assert client.hgetall("visits:about") == {"visits": "2"}


def test_rows_are_looked_up(redis_server: Any, client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    client.hset("user:7", mapping={"country": "uk"})
    run("enrich.py", redis_server)
    assert capsys.readouterr().out == (
        "[{'user_id': 7, 'page': 'home', 'country': 'uk'}, "
        "{'user_id': 8, 'page': 'about', 'country': None}]\n"
    )


def test_streams_are_read(redis_server: Any, client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    client.xadd("visits", {"page": "home", "user": 7}, id="5-1")
    run("visits.py", redis_server)
    assert capsys.readouterr().out == "[{'page': 'home', 'user': 7, 'id': '5-1'}]\n"


def test_no_program_is_overlooked() -> None:
    tested = Path(__file__).read_text()
    assert all(f'run("{step.file}"' in tested for step in steps(PAGE))
