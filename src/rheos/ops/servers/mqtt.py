"""A real MQTT broker: the `mosquitto` of this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from rheos.core.errors import ConfigurationError
from rheos.ops.servers.server import HOST, Server

_PROGRAM = "mosquitto"
_PASSWORDS = "mosquitto_passwd"
_PATH = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/usr/local/sbin"
"""Folders of programs, with those that a user's PATH may lack."""
_PASSWORD_WITHIN_S = 30.0


class MosquittoServer(Server):
    """A mosquitto that keeps its sessions and messages when it is stopped.

    ```python
    with servers.MosquittoServer() as mqtt:
        counts.sink_to(rh.mqtt.sink(mqtt.url, topic="counts", format=rh.formats.json()))
    ```

    Args:
        port: where it listens; None selects a free one.
        data: the folder of its data; None uses a private one that is removed with the server.
        user: user and password that clients must send; None for none.
        settings: its own settings, as in its configuration. They override those of this class.
    """

    name: ClassVar[str] = "mqtt"
    ready: ClassVar[str] = " running"

    def __init__(
        self,
        *,
        port: int | None = None,
        data: str | Path | None = None,
        user: tuple[str, str] | None = None,
        settings: Mapping[str, str | int] | None = None,
    ) -> None:
        super().__init__(port=port, data=data)
        self._user = user
        self._settings = dict(settings or {})
        self._programs: dict[str, str] = {}

    @property
    def url(self) -> str:
        """URL for clients, with user and password. Known from the first start on."""
        login = (
            "" if self._user is None else ":".join(quote(part, safe="") for part in self._user) + "@"
        )
        return f"mqtt://{login}{self.address}"

    def install(self) -> None:
        for name in (_PROGRAM, _PASSWORDS):
            found = shutil.which(name, path=_PATH)
            if found is None:
                raise ConfigurationError(
                    f"{name} is not installed on this machine",
                    hint="install your system's package (Debian: apt install mosquitto; macOS: brew "
                    "install mosquitto)",
                )
            self._programs[name] = found

    def command(self, folder: Path, port: int) -> Sequence[str]:
        settings: dict[str, str | int] = {
            "listener": f"{port} {HOST}",
            "allow_anonymous": "true" if self._user is None else "false",
            "persistence": "true",
            "persistence_location": f"{folder}/",
            "autosave_interval": 5,
            "log_dest": "stderr",
            # Its own defaults are 20 messages without an acknowledgement, and 1,000 that wait.
            "max_inflight_messages": 0,
            "max_queued_messages": 1_000_000,
        }
        if os.geteuid() == 0:
            settings["user"] = "root"  # Otherwise it changes to a user who may not own the folder.
        if self._user is not None:
            settings["password_file"] = str(self._password_file(folder, *self._user))
        config = folder / "mosquitto.conf"
        config.touch(mode=0o600)
        lines = (f"{name} {value}\n" for name, value in {**settings, **self._settings}.items())
        config.write_text("".join(lines))
        return [self._programs[_PROGRAM], "-c", str(config)]

    def _password_file(self, folder: Path, user: str, password: str) -> Path:
        """Write the file of users. Its program replaces passwords by hashes."""
        file = folder / "passwords"
        file.unlink(missing_ok=True)
        file.touch(mode=0o600)
        file.write_text(f"{user}:{password}\n")
        subprocess.run(
            [self._programs[_PASSWORDS], "-U", str(file)],
            check=True,
            capture_output=True,
            timeout=_PASSWORD_WITHIN_S,
        )
        return file
