"""The servers of `outages.py`, and what is done to them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import psycopg
import redis

from rheos.ops.chaos.faulty_proxy import FaultyProxy, LinkFault
from rheos.ops.servers.server import Server, free_port
from rheos.testing.servers import KafkaBroker, PostgresServer, RedisServer

SERVERS = ("kafka", "postgres", "redis")
KINDS = ("killed", "frozen", *LinkFault, "full")
EMPTIED = "emptied"
DISK_MB = {"kafka": 320, "postgres": 320}
_BLOCK = b"\0" * (1 << 20)

Strike: TypeAlias = Callable[[float], None]
"""Takes the seconds that a fault lasts, and returns once the server is back."""


@dataclass
class Servers:
    """The three servers. The job reaches each through a proxy, and the drill directly."""

    kafka: KafkaBroker
    postgres: PostgresServer
    redis: RedisServer
    proxies: Mapping[str, FaultyProxy]
    disks: Mapping[str, Path]
    """Folders of a small file system of their own, by server; none if mounting is not permitted."""

    def server(self, name: str) -> Server:
        return {"kafka": self.kafka, "postgres": self.postgres, "redis": self.redis}[name]

    def address(self, name: str) -> str:
        """Return where the job reaches the server."""
        return f"127.0.0.1:{self.proxies[name].port}"

    def strike(self, name: str, kind: str) -> Strike | None:
        """Return what lets the fault happen to the server; None if that is not permitted here."""
        server, proxy = self.server(name), self.proxies[name]
        match kind:
            case "killed":
                return lambda away_s: _while(away_s, server.kill, server.start)
            case "frozen":
                return lambda away_s: _while(away_s, server.freeze, server.thaw)
            case "full" if name == "redis":
                return lambda away_s: _while(away_s, self._memory("1"), self._memory("0"))
            case "full" if name in self.disks:
                return lambda away_s: _while(away_s, self._fill(name), self._make_room(name))
            case "full":
                return None
            case _:
                fault = LinkFault(kind)
                return lambda away_s: _while(away_s, lambda: proxy.strike(fault), proxy.heal)

    def empty(self, name: str) -> None:
        """Kill the server, and start it again without what it had."""
        server = self.server(name)
        server.kill()
        folder = server.log.parent
        match name:
            case "kafka":
                shutil.rmtree(folder / "log")
                server.start()
            case "redis":
                for written in folder.glob("appendonly*"):
                    shutil.rmtree(written) if written.is_dir() else written.unlink()
                server.start()
            case _:
                server.start()
                with psycopg.connect(self.postgres.url, autocommit=True) as session:
                    session.execute("DROP SCHEMA public CASCADE")
                    session.execute("CREATE SCHEMA public")

    def _memory(self, limit: str) -> Callable[[], object]:
        def limited() -> None:
            with redis.from_url(self.redis.url) as client:
                client.config_set("maxmemory", limit)

        return limited

    def _fill(self, name: str) -> Callable[[], object]:
        def filled() -> None:
            with suppress(OSError), open(self.disks[name] / "ballast", "wb", buffering=0) as ballast:
                while ballast.write(_BLOCK):
                    pass

        return filled

    def _make_room(self, name: str) -> Callable[[], object]:
        def made() -> None:
            (self.disks[name] / "ballast").unlink()
            time.sleep(1.0)
            # A server that gave up is started again, as whatever supervises it does. One whose
            # process is there, and that serves nothing any more, is killed first.
            if name == "kafka" or not self._postgres_serves():
                self.server(name).kill()
                self.server(name).start()

        return made

    def _postgres_serves(self) -> bool:
        with suppress(psycopg.Error), psycopg.connect(self.postgres.url, connect_timeout=10):
            return True
        return False


def _while(away_s: float, begin: Callable[[], object], end: Callable[[], object]) -> None:
    begin()
    time.sleep(away_s)
    end()


@contextmanager
def servers() -> Iterator[Servers]:
    with ExitStack() as stack:
        disks = {name: disk for name in DISK_MB if (disk := stack.enter_context(_disk(name)))}
        behind = free_port()
        to_kafka = stack.enter_context(FaultyProxy(behind))
        kafka = KafkaBroker(behind={behind: to_kafka.port}, data=_data(disks, "kafka"))
        postgres = PostgresServer(
            data=_data(disks, "postgres"), settings={"min_wal_size": "32MB", "max_wal_size": "64MB"}
        )
        stored = RedisServer()
        for server in (kafka, postgres, stored):
            stack.enter_context(server)
        ports = [int(server.address.rpartition(":")[2]) for server in (postgres, stored)]
        proxies = [stack.enter_context(FaultyProxy(port)) for port in ports]
        by_name = dict(zip(SERVERS, [to_kafka, *proxies], strict=True))
        yield Servers(kafka, postgres, stored, by_name, disks)


def _data(disks: Mapping[str, Path], name: str) -> Path | None:
    return disks[name] / "server" if name in disks else None


@contextmanager
def _disk(name: str) -> Iterator[Path | None]:
    """Mount a small file system in memory, if that is permitted."""
    folder = Path(tempfile.mkdtemp(prefix=f"outages-{name}-"))
    folder.chmod(0o755)
    options = f"size={DISK_MB[name]}m,mode=755"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield folder if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False)
        shutil.rmtree(folder, ignore_errors=True)
