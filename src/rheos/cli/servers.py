"""`rheos servers NAME`: a real server for development, in the foreground until Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from pathlib import Path

from rheos.cli.terminal import report
from rheos.core.errors import ConfigurationError, RheosError
from rheos.ops.servers import development_server

_LOOK_EVERY_S = 0.2


def serve(name: str, port: int | None, data: Path | None) -> int:
    """Start a server, print its address, and stop it on Ctrl-C or SIGTERM.

    Returns the exit code: 2 if there is no such server, if it cannot start, or if it ends by itself.
    """
    # The server is stopped properly not only by Ctrl-C, but also by SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with development_server(name)(port=port, data=data) as server:
            print(f"{name} listens at {server.url}; press Ctrl-C to stop it", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                while server.running:
                    time.sleep(_LOOK_EVERY_S)
                raise ConfigurationError(
                    f"the {name} server stopped unexpectedly",
                    detail="\n".join(server.log.read_text().splitlines()[-10:]),
                )
    except (RheosError, KeyboardInterrupt) as error:
        return report(error)
    return 0
