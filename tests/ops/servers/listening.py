"""Addresses at which a server of the tests listens."""

from __future__ import annotations

import psutil

from rheos.ops.servers import Server


def listening_at(server: Server) -> list[str]:
    """Return the addresses of the server's processes, an entry for each port."""
    addresses = [
        connection.laddr.ip
        for process in server._processes()
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    return [address.removeprefix("::ffff:") for address in addresses]
