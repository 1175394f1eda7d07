"""The sampling of a thread's stack, every few milliseconds for a while, from another thread."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import PurePath
from types import CodeType, FrameType

from rheos.core.protocol.stacks import MOST_CHARACTERS, MOST_FRAMES, MOST_STACKS, StackProfile

OTHERS = "(others)"
"""Name for all stacks beyond the maximum number of different ones."""


class StackSampler:
    """A sampler of one thread's stack. It calls `done` from the sampling thread, with the result."""

    def __init__(self, thread_id: int, within: CodeType | None = None) -> None:
        """Sample the thread. With `within`, keep only frames of that function and of those it calls."""
        self._thread_id = thread_id
        self._within = within
        self._over = threading.Event()
        self._sampling: threading.Thread | None = None

    def begin(
        self, subtask: int, for_ms: int, every_ms: int, done: Callable[[StackProfile], None]
    ) -> bool:
        """Begin to sample. Return False if it already samples."""
        if self._sampling is not None and self._sampling.is_alive():
            return False

        def sample() -> None:
            seen: Counter[str] = Counter()
            for _ in range(max(for_ms // every_ms, 1)):
                if self._over.wait(every_ms / 1000):
                    return
                frame = sys._current_frames().get(self._thread_id)
                if frame is None:
                    break
                stack = folded(frame, self._within)
                del frame  # It references all objects with which the thread works.
                seen[stack if stack in seen or len(seen) < MOST_STACKS else OTHERS] += 1
            done(
                StackProfile(
                    subtask=subtask, every_ms=every_ms, samples=seen.total(), stacks=dict(seen)
                )
            )

        self._sampling = threading.Thread(target=sample, name="rheos-sampler", daemon=True)
        self._sampling.start()
        return True

    def close(self) -> None:
        """Drop the current profile. Waits for at most one sample."""
        self._over.set()
        if self._sampling is not None:
            self._sampling.join(1.0)


def folded(frame: FrameType | None, within: CodeType | None = None) -> str:
    """Return the frames from the outermost inward; the innermost ones if the stack is too deep."""
    names: list[str] = []
    while frame is not None and len(names) < MOST_FRAMES:
        names.append(_name(frame))
        frame = None if frame.f_code is within else frame.f_back
    return ";".join(reversed(names))[-MOST_CHARACTERS:]


def _name(frame: FrameType) -> str:
    """Return the function and its place: the file without its folders, and its first line."""
    code = frame.f_code
    text = f"{code.co_qualname} ({PurePath(code.co_filename).name}:{code.co_firstlineno})"
    return text.replace(";", ",").replace("\n", " ")[:200]
