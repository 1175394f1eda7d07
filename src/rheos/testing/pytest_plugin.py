"""Fixtures of pytest for tests of jobs (docs/testing.md). pytest finds them if Rheos is installed.

The plugin does not import the rest of `rheos.testing` until a fixture is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rheos.testing import Harness
    from rheos.testing.servers import Server

_SEEDS = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_USUAL = "0-4"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("rheos").addoption(
        "--rheos-seeds",
        metavar="SEEDS",
        default=_USUAL,
        type=_seeds,
        help=f"seeds of the fixture rheos_seeds: 17, 3,5 or 0-99 (default: {_USUAL})",
    )


def _seeds(text: str) -> list[int]:
    if not _SEEDS.fullmatch(text):
        raise ValueError(text)  # pytest says of which option.
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


@pytest.fixture(scope="session")
def rheos_seeds(request: pytest.FixtureRequest) -> list[int]:
    """Return the seeds for `rheos.testing.simulate(..., seeds=rheos_seeds)`: five, or those of the
    command line (`--rheos-seeds=0-99`)."""
    return list(request.config.getoption("--rheos-seeds"))


@pytest.fixture
def rheos_harness() -> Iterator[Callable[..., Harness]]:
    """Return a function that creates a `rheos.testing.Harness`. The harness is closed when the test
    ends."""
    from contextlib import ExitStack

    from rheos.testing import Harness

    with ExitStack() as opened:

        def make(*args: Any, **kwargs: Any) -> Harness:
            return opened.enter_context(Harness(*args, **kwargs))

        yield make


@pytest.fixture
def rheos_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder in which running jobs are registered, so that jobs of a test do not appear in the
    user's `rheos jobs`."""
    home = tmp_path_factory.mktemp("rheos-home")
    monkeypatch.setenv("RHEOS_HOME", str(home))
    return home


@pytest.fixture(scope="session")
def rheos_server() -> Iterator[Callable[[str], Server]]:
    """Return a function that starts a real server by its name, such as "kafka" (see `rheos
    connectors`).

    One server of each name runs until all tests have ended. If a server is not available, the test is
    skipped.
    """
    from contextlib import ExitStack

    from rheos.testing.servers import development_server

    started: dict[str, Server] = {}
    with ExitStack() as servers:

        def start(name: str) -> Server:
            if name not in started:
                server = development_server(name)()
                installed(server)
                started[name] = servers.enter_context(server)
            return started[name]

        yield start


def installed(server: Server) -> None:
    """Install the server if necessary. Skip the test if it is not available."""
    from rheos.core.errors import ConfigurationError

    try:
        server.install()
    except ConfigurationError as error:
        pytest.skip(f"{server.name} is not available: {error.what}")
