"""I/O for a caller who steps operators by hand: all of it is done at once, asynchronous calls too."""

from __future__ import annotations

from rheos.core.protocol.ports import EventLoop
from rheos.runtimes.host.inline_io import InlineIo
from rheos.runtimes.simulated.event_loop import InstantEventLoop


class InstantIo(InlineIo):
    """The I/O of harnesses, and of replays."""

    def event_loop(self) -> EventLoop:
        return InstantEventLoop()
