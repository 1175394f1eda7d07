"""A slow and lossy cable between two TAP devices, whose frames pass through this process. Traffic on it
meets real delay, reordering and loss; the kernel needs no more than TAP devices."""

from __future__ import annotations

import contextlib
import fcntl
import heapq
import os
import random
import selectors
import struct
import threading
import time
from itertools import count
from typing import NamedTuple

_TUNSETIFF = 0x400454CA
_TAP, _NO_INFO = 0x0002, 0x1000
_FRAME_BYTES = 2048
_ON_THE_WAY = 10_000


class Quality(NamedTuple):
    """Quality of a cable, for each direction."""

    delay_ms: float
    jitter_ms: float
    """Frames that take different times overtake each other."""
    loss: float
    """The share of frames that do not arrive."""


class WorseCable:
    """Cable whose ends are network devices with these names, in this process's network until they are
    moved. Raises OSError if devices cannot be created."""

    def __init__(self, near: str, far: str, quality: Quality, seed: int = 0) -> None:
        self._quality = quality
        self._random = random.Random(seed)
        self.lost = self.passed = 0
        self._ends: list[int] = []
        self._over = threading.Event()
        try:
            for name in (near, far):
                self._ends.append(_device(name))
        except OSError:
            self._close_ends()
            raise
        self._thread = threading.Thread(target=self._run, name="cable", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._close_ends()

    def _close_ends(self) -> None:
        while self._ends:
            os.close(self._ends.pop())

    def _run(self) -> None:
        near, far = self._ends
        other = {near: far, far: near}
        numbers = count()
        on_the_way: list[tuple[float, int, int, bytes]] = []
        """When each frame is due, its number, and where it goes."""
        with selectors.DefaultSelector() as arrivals:
            for end in self._ends:
                arrivals.register(end, selectors.EVENT_READ)
            while not self._over.is_set():
                wait_s = on_the_way[0][0] - time.monotonic() if on_the_way else 0.1
                for key, _ in arrivals.select(max(min(wait_s, 0.1), 0.0)):
                    frame = os.read(key.fd, _FRAME_BYTES)
                    if self._random.random() < self._quality.loss or len(on_the_way) >= _ON_THE_WAY:
                        self.lost += 1
                        continue
                    due = time.monotonic() + self._takes_s()
                    heapq.heappush(on_the_way, (due, next(numbers), other[key.fd], frame))
                while on_the_way and on_the_way[0][0] <= time.monotonic():
                    _, _, end, frame = heapq.heappop(on_the_way)
                    self.passed += 1
                    with contextlib.suppress(OSError):  # As when that end is unplugged.
                        os.write(end, frame)

    def _takes_s(self) -> float:
        jitter_ms = self._random.uniform(-self._quality.jitter_ms, self._quality.jitter_ms)
        return (self._quality.delay_ms + jitter_ms) / 1000


def _device(name: str) -> int:
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    try:
        fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP | _NO_INFO))
    except OSError:
        os.close(end)
        raise
    return end
