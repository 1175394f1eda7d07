"""The server around the dashboard: where it listens, and the address that it is opened at."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rheos.control.job_list import stored_jobs
from rheos.dashboard.access import Access, Audit, drawn_holder, holders_of
from rheos.dashboard.served import ServedJobs
from rheos.errors import ConfigurationError

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_BACKLOG = 64


@dataclass(frozen=True)
class DashboardConfig:
    host: str = "127.0.0.1"
    port: int = 8484
    """0 takes a free one."""
    directories: Sequence[str] = field(default_factory=tuple)
    """Checkpoint directories whose jobs are served, running or not."""
    savepoint_directories: Sequence[str] = field(default_factory=tuple)
    """Where requests may have savepoints written and read, besides the jobs' checkpoint directories."""
    tokens: Path | None = None
    """A file of tokens with roles; None draws one token that may do all."""
    audit: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    """TLS, with both."""
    unencrypted: bool = False
    """Listens beyond this machine without TLS: something before it encrypts."""

    def check(self) -> None:
        """Raises ConfigurationError."""
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("TLS needs a certificate and its key: say both")
        if self.host not in _LOOPBACK and self.certificate is None and not self.unencrypted:
            raise ConfigurationError(
                f"tokens would travel to {self.host} unencrypted",
                hint="say --certificate and --key, or --unencrypted where a proxy before it encrypts",
            )


class DashboardServer:
    """Listens from the first moment on until `close`, in a thread of its own.

    Raises ConfigurationError where it cannot listen there, or the packages are not installed.
    """

    def __init__(self, config: DashboardConfig) -> None:
        config.check()
        try:
            import uvicorn

            from rheos.dashboard.app import Dashboard
        except ImportError as error:
            raise ConfigurationError(
                "the dashboard needs the packages starlette and uvicorn",
                hint="pip install 'rheos[dashboard]'",
            ) from error
        for directory in config.directories:
            stored_jobs(directory)
        holders = [drawn_holder()] if config.tokens is None else holders_of(config.tokens)
        with ExitStack() as undo:
            self._audit = Audit(config.audit)
            undo.callback(self._audit.close)
            self._socket = _listening(config)
            undo.callback(self._socket.close)
            names = [config.host, *_LOOPBACK] if config.host in _LOOPBACK else ["*"]
            dashboard = Dashboard(
                ServedJobs(config.directories),
                Access(holders),
                self._audit,
                names,
                savepoint_folders=config.savepoint_directories,
            )
            self._dashboard = dashboard
            settings = uvicorn.Config(
                dashboard.app,
                log_level="warning",
                access_log=False,
                lifespan="off",
                limit_concurrency=256,
                timeout_graceful_shutdown=2,
                ssl_certfile=config.certificate,
                ssl_keyfile=config.key,
            )
            try:
                settings.load()
            except (OSError, ValueError) as error:
                raise ConfigurationError(
                    f"the certificate {str(config.certificate)!r} and its key cannot be used: {error}"
                ) from error
            undo.pop_all()
        self._server = uvicorn.Server(settings)
        port = self._socket.getsockname()[1]
        scheme = "http" if config.certificate is None else "https"
        host = f"[{config.host}]" if ":" in config.host else config.host
        self.url = f"{scheme}://{host}:{port}/"
        self.address = self.url if config.tokens else f"{self.url}#token={holders[0].token}"
        """What a browser is to open. What is behind the # is not sent to any server."""
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="rheos-dashboard", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Returns when the server has ended."""
        self._thread.join()

    def close(self) -> None:
        """May be called again."""
        self._server.should_exit = True
        self._dashboard.close()
        self._thread.join(5.0)
        self._socket.close()
        self._audit.close()


def _listening(config: DashboardConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((config.host, config.port))
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        listening.close()
        raise ConfigurationError(
            f"the dashboard cannot listen at {config.host}:{config.port}: {error}",
            hint="say another --port, or 0 for any that is free",
        ) from error
    return listening
