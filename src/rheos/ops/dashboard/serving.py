"""The dashboard's server: where it listens, and the address at which a browser opens it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rheos.connectors.listener.asgi import AsgiService
from rheos.connectors.listener.bounds import Bounds
from rheos.connectors.listener.place import HostNames, is_loopback, listening_socket, shown_address
from rheos.connectors.listener.server import Listener
from rheos.core.errors import ConfigurationError
from rheos.ops.control.job_list import stored_jobs
from rheos.ops.dashboard.access import (
    CODE_WITHIN_S,
    Access,
    Audit,
    SignInCode,
    TokenFile,
    drawn_holder,
    holders_of,
)
from rheos.ops.dashboard.served_jobs import ServedJobs
from rheos.runtimes.operation_contract import MAX_READ_BYTES

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_HEALTH = ("/healthz", "/livez", "/readyz")
_MAX_CONNECTIONS = 256
"""Maximum number of simultaneous requests with a valid token, including event listeners."""


@dataclass(frozen=True)
class DashboardConfig:
    host: str = "127.0.0.1"
    port: int = 8484
    """Port; 0 selects a free one."""
    directories: Sequence[str] = field(default_factory=tuple)
    """Checkpoint directories whose jobs are served, running or not."""
    savepoint_directories: Sequence[str] = field(default_factory=tuple)
    """Folders for savepoints that requests may use, in addition to the checkpoint directories."""
    replay_memory_bytes: int | None = None
    """Memory limit of one replay; None: 4 GiB, or half of the machine's memory if that is less."""
    tokens: Path | None = None
    """File of tokens with roles; None makes one token that permits everything."""
    audit: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    """Key of the certificate. TLS needs both."""
    unencrypted: bool = False
    """Whether to listen beyond this machine without TLS, because a proxy in front encrypts."""

    def check(self) -> None:
        """Raise ConfigurationError if the settings contradict each other or are unsafe."""
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("TLS needs both a certificate and its key")
        if not is_loopback(self.host) and self.certificate is None and not self.unencrypted:
            raise ConfigurationError(
                f"tokens would travel to {self.host} unencrypted",
                hint="pass --certificate and --key, or --unencrypted if a proxy in front of it "
                "encrypts",
            )


class DashboardServer:
    """The server. It listens from its construction until `close`, in a separate thread. The constructor
    raises ConfigurationError if it cannot listen there, or the packages are not installed."""

    def __init__(self, config: DashboardConfig) -> None:
        config.check()
        try:
            from rheos.ops.dashboard.app import Dashboard
        except ImportError as error:
            raise ConfigurationError(
                "the dashboard needs the package starlette", hint="pip install 'rheos[dashboard]'"
            ) from error
        for directory in config.directories:
            stored_jobs(directory)
        drawn = None
        if config.tokens is None:
            drawn = drawn_holder()
            holders = [drawn]
        else:
            holders = holders_of(config.tokens)
        tls = _tls(config)
        with ExitStack() as undo:
            self._token_file = None if drawn is None else TokenFile(drawn.token)
            if self._token_file is not None:
                undo.callback(self._token_file.close)
            code = None if drawn is None else SignInCode(drawn)
            self._audit = Audit(config.audit)
            undo.callback(self._audit.close)
            listening = _listening(config)
            undo.callback(listening.close)
            loopback = is_loopback(config.host)
            names = [config.host, *_LOOPBACK] if loopback else ["*"]
            access = Access(holders)
            self._dashboard = Dashboard(
                ServedJobs(config.directories),
                access,
                self._audit,
                names,
                savepoint_folders=config.savepoint_directories,
                replay_memory_bytes=config.replay_memory_bytes,
                code=code,
            )
            scheme = "http" if tls is None else "https"
            service = AsgiService(
                self._dashboard.app,
                lambda token: access.holder(token) is not None,
                _HEALTH,
                scheme,
            )
            bounds = Bounds(_MAX_CONNECTIONS, MAX_READ_BYTES)
            # Other machines may use any of its names; there the token decides.
            hosts = HostNames.of(config.host) if loopback else None
            self._listener = Listener("dashboard", listening, service, bounds, hosts, tls)
            undo.pop_all()
        self.url = f"{scheme}://{shown_address(config.host, self._listener.port)}/"
        self.address = self.url if code is None else f"{self.url}#code={code.code}"
        """Address to open once in a browser. Browsers do not send the part after the # to a server."""
        self.token_file = None if self._token_file is None else self._token_file.path
        """File with the random token; None if a file of tokens was configured."""

    def announcement(self, *, to_terminal: bool) -> str:
        """Return the line to print. It contains the code only if no log stores it."""
        if self.token_file is None:
            return f"the dashboard is at {self.url}"
        if to_terminal:
            return (
                f"the dashboard is at {self.address}\n(the address works once, for "
                f"{CODE_WITHIN_S / 60:.0f} minutes; the token is in {self.token_file})"
            )
        return f"the dashboard is at {self.url}, and its token in {self.token_file}"

    def wait(self) -> None:
        """Return when the server has ended."""
        self._listener.wait()

    def close(self) -> None:
        """Close the server. May be called again."""
        self._dashboard.close()
        self._listener.close()
        self._audit.close()
        if self._token_file is not None:
            self._token_file.close()


def _tls(config: DashboardConfig) -> ssl.SSLContext | None:
    if config.certificate is None:
        return None
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        made.load_cert_chain(config.certificate, config.key)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"the certificate {str(config.certificate)!r} and its key are not valid: {error}"
        ) from error
    return made


def _listening(config: DashboardConfig) -> socket.socket:
    try:
        return listening_socket(config.host, config.port)
    except OSError as error:
        raise ConfigurationError(
            f"the dashboard cannot listen at {config.host}:{config.port}: {error}",
            hint="choose another --port, or 0 for any free one",
        ) from error
