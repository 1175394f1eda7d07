"""Encryption between the processes of a job: ZeroMQ's CURVE, with keys that travel with the job.

One key pair serves the listening sockets, one the connecting ones. Both are made for the job and reach
the workers inside the Spark job's own closure; who does not hold them cannot connect.
"""

from __future__ import annotations

from dataclasses import dataclass

import zmq


@dataclass(frozen=True)
class Security:
    """The job's keys, Z85-encoded."""

    server_public: bytes
    server_secret: bytes
    client_public: bytes
    client_secret: bytes

    @classmethod
    def make(cls) -> Security:
        return cls(*zmq.curve_keypair(), *zmq.curve_keypair())

    def secure(self, socket: zmq.Socket[bytes], *, server: bool) -> None:
        """Called before the socket binds or connects."""
        if server:
            socket.curve_server = True
            socket.curve_publickey = self.server_public
            socket.curve_secretkey = self.server_secret
        else:
            socket.curve_serverkey = self.server_public
            socket.curve_publickey = self.client_public
            socket.curve_secretkey = self.client_secret
