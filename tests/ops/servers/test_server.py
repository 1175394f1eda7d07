"""Common behaviour of all servers, tested with a minimal one."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from rheos.cli.servers import serve
from rheos.core.errors import ConfigurationError
from rheos.ops.servers.server import Server
from tests.waiting import wait_for

ECHO = """
import pathlib, signal, socket, sys
folder, port = pathlib.Path(sys.argv[1]), int(sys.argv[2])
signal.signal(signal.SIGTERM, lambda *_: (folder.joinpath("ended").touch(), sys.exit(0)))
server = socket.create_server(("127.0.0.1", port))
with open(folder / "starts", "a") as starts:
    starts.write("start\\n")
print("it is ready", flush=True)
while True:
    server.accept()[0].close()
"""


class EchoServer(Server):
    name: ClassVar[str] = "echo"
    ready: ClassVar[str] = "it is ready"

    def install(self) -> None:
        pass

    def command(self, folder: Path, port: int) -> Sequence[str]:
        return [sys.executable, "-c", ECHO, str(folder), str(port)]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EchoServer]:
    with EchoServer(data=tmp_path / "data") as started:
        yield started


def serves(address: str) -> bool:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), 10).close()
    except ConnectionRefusedError:
        return False
    return True


def test_a_stopped_server_keeps_its_port_and_its_data(server: EchoServer, tmp_path: Path) -> None:
    address = server.address
    assert serves(address)
    server.stop()
    assert (tmp_path / "data/ended").exists()
    assert not server.running
    assert not serves(address)
    server.start()
    assert server.address == address
    assert serves(address)
    assert (tmp_path / "data/starts").read_text() == "start\n" * 2


def test_a_killed_server_ends_at_once(server: EchoServer, tmp_path: Path) -> None:
    server.kill()
    assert not serves(server.address)
    assert not (tmp_path / "data/ended").exists()
    assert server.start().running


def test_a_private_folder_is_deleted_with_the_server() -> None:
    with EchoServer() as server:
        folder = server.log.parent
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()


def test_the_error_for_a_used_port_quotes_the_server(server: EchoServer) -> None:
    port = int(server.address.split(":")[1])
    other = EchoServer(port=port)
    with pytest.raises(ConfigurationError, match="did not start at 127") as raised:
        other.start()
    other.close()
    assert "Address already in use" in str(raised.value)


STARTER = """
import sys
from tests.ops.servers.test_server import EchoServer
server = EchoServer().start()
print(server.address, server.log.parent, flush=True)
sys.stdin.read()
"""


def test_a_server_ends_when_its_starter_is_killed() -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert starter.stdout is not None
    address, folder = starter.stdout.readline().split()
    assert serves(address)
    starter.kill()
    starter.communicate()
    wait_for(lambda: not Path(folder).exists())
    assert not serves(address)


def test_the_command_reports_a_server_that_ends_by_itself(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    class Brief(EchoServer):
        def command(self, folder: Path, port: int) -> Sequence[str]:
            return [sys.executable, "-c", "print('it is ready'); print('no room')"]

    monkeypatch.setattr("rheos.cli.servers.development_server", {"echo": Brief}.__getitem__)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert serve("echo", None, tmp_path) == 2
    said = capsys.readouterr()
    assert said.out.startswith("echo listens at 127.0.0.1:")
    assert "server stopped unexpectedly" in said.err
    assert "no room" in said.err
