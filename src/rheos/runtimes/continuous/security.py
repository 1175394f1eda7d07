"""Authentication and encryption of a job's sockets.

| where its processes are | `encrypt` | sockets |
|---|---|---|
| on one machine | None, False | ipc, in a folder that only the user can enter |
| on one machine | True | the same, with CURVE |
| on several | None, True | tcp, with CURVE |
| on several | False | tcp, with the job's token as a password, unencrypted on the network |

Keys and token are made for the job and reach the workers inside the Spark job's closure. A listening
socket requests an answer from `Admission` for each connection, before it reads a frame of it.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Protocol

import zmq
from zmq.utils import z85

from rheos.core.errors import ConfigurationError

_USER = b"rheos"
_DOMAIN = b"rheos"


class Security(Protocol):
    """The authentication of a job's connections. Sent to the workers."""

    def listening(self, socket: zmq.Socket[bytes]) -> None:
        """Configure a socket that listens. Called before it binds."""
        ...

    def connecting(self, socket: zmq.Socket[bytes]) -> None:
        """Configure a socket that connects. Called before it connects."""
        ...

    def admits(self, mechanism: bytes, credentials: list[bytes]) -> bool:
        """Return whether the peer that presents these credentials belongs to the job."""
        ...


@dataclass(frozen=True)
class Curve:
    """Encryption by two key pairs, Z85-encoded. One is for sockets that listen. The other is for
    sockets that connect, and is the only one that is admitted."""

    server_public: bytes
    server_secret: bytes
    client_public: bytes
    client_secret: bytes

    @classmethod
    def make(cls) -> Curve:
        if not zmq.has("curve"):
            raise ConfigurationError(
                "this build of ZeroMQ cannot encrypt",
                hint="install pyzmq from its wheels, or pass encrypt=False if the network is trusted",
            )
        return cls(*zmq.curve_keypair(), *zmq.curve_keypair())

    def listening(self, socket: zmq.Socket[bytes]) -> None:
        _asks_for_admission(socket)
        socket.curve_server = True
        socket.curve_publickey = self.server_public
        socket.curve_secretkey = self.server_secret

    def connecting(self, socket: zmq.Socket[bytes]) -> None:
        socket.curve_serverkey = self.server_public
        socket.curve_publickey = self.client_public
        socket.curve_secretkey = self.client_secret

    def admits(self, mechanism: bytes, credentials: list[bytes]) -> bool:
        return mechanism == b"CURVE" and credentials == [z85.decode(self.client_public)]


@dataclass(frozen=True)
class Password:
    """Authentication by the job's token, without encryption."""

    token: bytes

    def listening(self, socket: zmq.Socket[bytes]) -> None:
        _asks_for_admission(socket)
        socket.plain_server = True

    def connecting(self, socket: zmq.Socket[bytes]) -> None:
        socket.plain_username = _USER
        socket.plain_password = self.token.hex().encode()

    def admits(self, mechanism: bytes, credentials: list[bytes]) -> bool:
        password = self.token.hex().encode()
        return (
            mechanism == b"PLAIN"
            and len(credentials) == 2
            and hmac.compare_digest(credentials[1], password)
        )


def security_of(encrypt: bool | None, token: bytes, *, one_machine: bool) -> Security | None:
    """Return the security by the table above; None if the sockets' folder is protection enough."""
    if encrypt or (encrypt is None and not one_machine):
        return Curve.make()
    return None if one_machine else Password(token)


def _asks_for_admission(socket: zmq.Socket[bytes]) -> None:
    socket.zap_domain = _DOMAIN
    # Without an admission that answers, ZeroMQ refuses all connections.
    socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
