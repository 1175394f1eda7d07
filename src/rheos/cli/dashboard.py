"""`rheos dashboard`: REST and a web page for jobs, in the foreground until Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import sys

from rheos.cli.terminal import report
from rheos.core.errors import RheosError
from rheos.ops.dashboard.serving import DashboardConfig, DashboardServer


def dashboard(config: DashboardConfig) -> int:
    """Print the address, serve until the command is terminated, and return the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        server = DashboardServer(config)
    except RheosError as error:
        return report(error)
    print(server.announcement(to_terminal=sys.stdout.isatty()), flush=True)
    with contextlib.closing(server), contextlib.suppress(KeyboardInterrupt):
        server.wait()
    return 0
