"""Samples of a thread's stack in folded form, the input of flame graphs."""

from __future__ import annotations

import msgspec

MOST_STACKS = 5_000
MOST_FRAMES = 128
MOST_CHARACTERS = 32_768
"""Maximum length of one stack."""
MOST_MS = 10 * 60 * 1000
"""Maximum time in ms for which a subtask is sampled."""


class StackProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The sampled stacks of a subtask."""

    subtask: int
    every_ms: int
    samples: int
    stacks: dict[str, int]
    """Number of samples of each stack: frames from outermost to innermost, joined by `;`."""

    def folded(self) -> str:
        """Return one line per stack, in the format of flamegraph.pl and speedscope."""
        return "".join(f"{stack} {count}\n" for stack, count in sorted(self.stacks.items()))


def profile_problem(profile: StackProfile) -> str | None:
    """Return why the profile cannot be a subtask's real samples; None if it is plausible."""
    if len(profile.stacks) > MOST_STACKS + 1:
        return f"it has {len(profile.stacks):,} stacks"
    if any(not 0 < len(stack) <= MOST_CHARACTERS for stack in profile.stacks):
        return "a stack is empty, or too long"
    if min(profile.stacks.values(), default=1) < 1 or sum(profile.stacks.values()) != profile.samples:
        return "the numbers of its samples are inconsistent"
    return None
