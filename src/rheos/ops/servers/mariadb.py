"""A real MariaDB: the `mariadbd` of this machine."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from rheos.core.errors import ConfigurationError
from rheos.ops.servers.server import HOST, Server

_PROGRAMS = "/usr/sbin:/usr/local/sbin"
"""Folders with programs of the system that a user's PATH may lack."""
_INIT_WITHIN_S = 120.0
_SETTINGS: Mapping[str, object] = {
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-metadata": "FULL",
    "binlog-row-image": "FULL",
    "server-id": 1,
    "character-set-server": "utf8mb4",
    "innodb-buffer-pool-size": "32M",
    "innodb-log-file-size": "16M",
    "performance-schema": "OFF",
    # A kill of its processes loses nothing, and a power failure of a development machine is acceptable.
    "innodb-flush-log-at-trx-commit": 2,
    "sync-binlog": 0,
}


class MariadbServer(Server):
    """A MariaDB with a database `rheos`, and a binlog from which changes can be read.

    ```python
    with servers.MariadbServer() as server:
        rh.mysql.changes("orders", url=server.url)
    ```

    Args:
        port: where it listens; None selects a free one.
        data: the folder of its data; None uses a private one that is removed with the server.
        settings: its own settings, as in `my.cnf`. They override those of this class.
    """

    name: ClassVar[str] = "mariadb"
    ready: ClassVar[str] = "ready for connections"

    def __init__(
        self,
        *,
        port: int | None = None,
        data: str | Path | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(port=port, data=data)
        self._settings = {**_SETTINGS, **(settings or {})}
        self._programs: Mapping[str, str] = {}

    @property
    def url(self) -> str:
        """URL with the user and the password, which is random and made with the data."""
        assert self._folder is not None
        password = (self._folder / "password").read_text()
        return f"mysql://rheos:{password}@{self.address}/rheos"

    def install(self) -> None:
        path = f"{os.environ.get('PATH', '')}:{_PROGRAMS}"
        found = {name: shutil.which(name, path=path) for name in ("mariadbd", "mariadb-install-db")}
        for name, program in found.items():
            if program is None:
                raise ConfigurationError(
                    f"{name} is not installed on this machine",
                    hint="install it (Debian: apt install mariadb-server-core mariadb-client-core; "
                    "macOS: brew install mariadb)",
                )
        self._programs = {name: program for name, program in found.items() if program is not None}

    def command(self, folder: Path, port: int) -> Sequence[str]:
        data, user = folder / "data", pwd.getpwuid(os.geteuid()).pw_name
        if not data.exists():
            self._make_data(folder, data, user)
        password = (folder / "password").read_text()
        setup = folder / "setup.sql"
        setup.touch(mode=0o600)
        setup.write_text(
            "CREATE DATABASE IF NOT EXISTS rheos;\n"
            f"CREATE USER IF NOT EXISTS 'rheos'@'%' IDENTIFIED BY '{password}';\n"
            "GRANT ALL ON *.* TO 'rheos'@'%' WITH GRANT OPTION;\n"
        )
        settings = {
            **self._settings,
            "datadir": data,
            "socket": folder / "mariadb.sock",
            "pid-file": folder / "mariadb.pid",
            "bind-address": HOST,
            "port": port,
            "user": user,
            "init-file": setup,
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [self._programs["mariadbd"], "--no-defaults", *options]

    def _make_data(self, folder: Path, data: Path, user: str) -> None:
        making, password = folder / "data.making", folder / "password"
        if making.exists():
            shutil.rmtree(making)
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(16))
        program = self._programs["mariadb-install-db"]
        done = subprocess.run(
            [program, "--no-defaults", f"--datadir={making}", f"--user={user}", "--skip-test-db"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_INIT_WITHIN_S,
            check=False,
        )
        if done.returncode != 0:
            raise ConfigurationError(
                f"MariaDB could not create its data in {data}",
                hint="choose an empty folder",
                detail=done.stdout.decode(errors="replace"),
            )
        making.rename(data)
