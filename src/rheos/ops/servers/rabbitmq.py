"""A real RabbitMQ server: the one that is installed on this machine, with its Erlang."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from rheos.core.errors import ConfigurationError
from rheos.ops.servers.server import HOST, Server, free_port

_PROGRAM = "rabbitmq-server"
_PATH = f"/usr/lib/rabbitmq/bin{os.pathsep}{os.environ.get('PATH', '')}{os.pathsep}/usr/local/sbin"
"""Folders of programs. Debian's script in /usr/sbin changes to another user."""


class RabbitmqServer(Server):
    """A RabbitMQ server without plug-ins, which keeps durable queues when it is stopped or killed.

    ```python
    with servers.RabbitmqServer() as rabbitmq:
        counts.sink_to(
            rh.rabbitmq.sink(rabbitmq.url, routing_key="counts", format=rh.formats.json())
        )
    ```

    Args:
        port: where it listens; None selects a free one.
        data: the folder of its data; None uses a private one that is removed with the server.
        user: user and password that clients must send.
        settings: its own settings, as in `rabbitmq.conf`. They override those of this class.
    """

    name: ClassVar[str] = "rabbitmq"
    ready: ClassVar[str] = "Server startup complete"
    port_taken: ClassVar[str] = "eaddrinuse"

    def __init__(
        self,
        *,
        port: int | None = None,
        data: str | Path | None = None,
        user: tuple[str, str] = ("guest", "guest"),
        settings: Mapping[str, str | int] | None = None,
    ) -> None:
        super().__init__(port=port, data=data)
        self._user = user
        self._settings = dict(settings or {})
        self._program: str | None = None

    @property
    def url(self) -> str:
        """URL for clients, with user and password. Known from the first start on."""
        return f"amqp://{':'.join(quote(part, safe='') for part in self._user)}@{self.address}"

    def install(self) -> None:
        self._program = shutil.which(_PROGRAM, path=_PATH)
        if self._program is None:
            raise ConfigurationError(
                f"{_PROGRAM} is not installed on this machine",
                hint="install your system's package (Debian: apt install rabbitmq-server; macOS: brew "
                "install rabbitmq)",
            )

    def command(self, folder: Path, port: int) -> Sequence[str]:
        assert self._program is not None
        settings: dict[str, str | int] = {
            "listeners.tcp.1": f"{HOST}:{port}",
            "default_user": self._user[0],
            "default_pass": self._user[1],
            "log.console": "true",
            "log.file": "false",
            **self._settings,
        }
        config = folder / "rabbitmq.conf"
        config.touch(mode=0o600)
        config.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
        plugins = folder / "enabled_plugins"
        plugins.write_text("[].\n")
        # Nodes find each other by a daemon that would outlive the server. This one needs none.
        nodes = free_port()
        address = HOST.replace(".", ",")
        variables = {
            "HOME": folder,
            "RABBITMQ_NODENAME": "rheos@localhost",
            "RABBITMQ_MNESIA_BASE": folder / "data",
            "RABBITMQ_LOG_BASE": folder / "log",
            "RABBITMQ_CONFIG_FILE": config,
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_ENABLED_PLUGINS_FILE": plugins,
            "RABBITMQ_PID_FILE": folder / "pid",
            "RABBITMQ_DIST_PORT": nodes,
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-start_epmd false -erl_epmd_port {nodes} "
            f"-kernel inet_dist_use_interface {{{address}}} +sbwt none",
            # The script then becomes the server, instead of its parent.
            "RUNNING_UNDER_SYSTEMD": "true",
        }
        return ["env", *(f"{name}={value}" for name, value in variables.items()), self._program]
