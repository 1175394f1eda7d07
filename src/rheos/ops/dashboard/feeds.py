"""Changing values for many listeners: each value is requested once a second, while anyone listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from rheos.core.errors import ConfigurationError

EVERY_S = 1.0
MAX_LISTENERS = 64


class SharedFeed:
    """One changing value. A slow listener misses intermediate values, and receives the newest."""

    def __init__(self, ask: Callable[[], bytes], every_s: float) -> None:
        """Begin without listeners. `ask` is called in a thread, and never by two at a time."""
        self._ask = ask
        self._every_s = every_s
        self._newest: bytes | None = None
        self._changed = asyncio.Condition()
        self._asking: asyncio.Task[None] | None = None
        self.listeners = 0

    async def listen(self) -> AsyncIterator[bytes]:
        """Yield the current value, and then each changed one."""
        self.listeners += 1
        if self._asking is None:
            self._asking = asyncio.create_task(self._go_on_asking())
        seen: bytes | None = None
        try:
            while True:
                async with self._changed:
                    while self._newest is None or self._newest == seen:
                        await self._changed.wait()
                    seen = self._newest
                yield seen
        finally:
            self.listeners -= 1
            if not self.listeners:
                self._asking.cancel()
                self._asking, self._newest = None, None

    async def _go_on_asking(self) -> None:
        while True:
            answer = await asyncio.to_thread(self._ask)
            async with self._changed:
                self._newest = answer
                self._changed.notify_all()
            await asyncio.sleep(self._every_s)


class Feeds:
    """The feeds that have listeners, by name."""

    def __init__(self, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._feeds: dict[str, SharedFeed] = {}

    def listen(self, name: str, ask: Callable[[], bytes]) -> AsyncIterator[bytes]:
        """Return the values of a feed, by its first listener's `ask`. Raise ConfigurationError if too
        many listen."""
        if sum(feed.listeners for feed in self._feeds.values()) >= MAX_LISTENERS:
            raise ConfigurationError(
                f"{MAX_LISTENERS} pages are already listening", hint="close pages that you do not need"
            )
        self._feeds = {key: feed for key, feed in self._feeds.items() if feed.listeners or key == name}
        feed = self._feeds.setdefault(name, SharedFeed(ask, self._every_s))
        return feed.listen()
