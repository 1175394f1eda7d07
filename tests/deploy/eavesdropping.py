"""Eavesdropper on a cable: it searches all traffic for some bytes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from types import TracebackType

_ALL_PROTOCOLS = 0x0003
_FRAME_BYTES = 1 << 17
"""Larger than any frame, also one that the kernel has put together of several."""


class Eavesdropper:
    """Listens on network devices of this process's network. Needs root."""

    def __init__(self, devices: Sequence[str], words: bytes) -> None:
        self._words = words
        self.frames = 0
        """Number of frames that have passed."""
        self.heard = 0
        """Number of frames that hold the words."""
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._listen, args=(each,)) for each in devices]

    def __enter__(self) -> Eavesdropper:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _listen(self, device: str) -> None:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as cable:
            cable.bind((device, 0))
            cable.settimeout(0.1)
            while not self._over.is_set():
                try:
                    frame = cable.recv(_FRAME_BYTES)
                except TimeoutError:
                    continue
                self.frames += 1
                self.heard += self._words in frame
