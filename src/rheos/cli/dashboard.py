"""`rheos dashboard`: REST and a page for the jobs, in the foreground until Ctrl-C."""

from __future__ import annotations

import contextlib
import signal
import sys

from rheos.cli.terminal import report
from rheos.core.errors import RheosError
from rheos.ops.dashboard.serving import DashboardConfig, DashboardServer


def dashboard(config: DashboardConfig) -> int:
    """Prints its address, and serves until it is asked to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        server = DashboardServer(config)
    except RheosError as error:
        return report(error)
    print(server.announcement(to_terminal=sys.stdout.isatty()), flush=True)
    with contextlib.closing(server), contextlib.suppress(KeyboardInterrupt):
        server.wait()
    return 0
