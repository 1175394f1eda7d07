"""Where a server of the tests listens."""

from __future__ import annotations

import psutil

from rheos.ops.servers import Server


def listening_at(server: Server) -> list[str]:
    """The addresses of its processes, an entry for each port."""
    folder = str(server.log.parent)
    addresses = [
        connection.laddr.ip
        for process in psutil.Process().children(recursive=True)
        if folder in " ".join(process.cmdline())
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    return [address.removeprefix("::ffff:") for address in addresses]
