"""Valid orders of entries in a log (CP31), with which a misplaced entry is detected.

Pure. Entries of versions before 0.2.0 do not contain their numbers. If such an entry is copied over a
later one, attempts and checkpoints are no longer in order.
"""

from __future__ import annotations

from itertools import pairwise

from rheos.core.checkpoint.log_entries import (
    AttemptStarted,
    CheckpointCompleted,
    JobFinished,
    LogEntry,
    NumberedCheckpoint,
)


def out_of_order(before: LogEntry, after: LogEntry) -> str | None:
    """Return the reason why `after` cannot follow directly on `before`; None if it can."""
    if after.reserved_to < before.reserved_to:
        return "it goes back to lower checkpoint ids (CP4)"
    if isinstance(after, AttemptStarted):
        if after.attempt <= before.attempt:
            return f"it claims attempt {after.attempt} after attempt {before.attempt} (CP6)"
        return None
    if isinstance(before, JobFinished):
        return "the job has finished before it (CP9)"
    if (after.attempt, after.owner, after.origin) != (before.attempt, before.owner, before.origin):
        return "it belongs to another attempt or driver than the entry before it (CP2)"
    last = before.from_checkpoint if isinstance(before, AttemptStarted) else before.checkpoint
    match after:
        case CheckpointCompleted():
            if isinstance(before, CheckpointCompleted) and before.final:
                return "the final checkpoint is before it (CP9)"
            if last is not None and after.checkpoint <= last:
                return f"checkpoint {after.checkpoint} is recorded after checkpoint {last} (CP4)"
        case JobFinished():
            if after.checkpoint != last:
                return f"the job ends with checkpoint {after.checkpoint}, after {last} (CP9)"
    return None


def not_listed(claim: AttemptStarted, kept: list[NumberedCheckpoint]) -> str | None:
    """Return why `kept`, oldest first, cannot be the checkpoints that the claim lists; None if it can.
    `kept` must contain all listed checkpoints, including those dropped since."""
    checkpoints = [numbered.entry.checkpoint for numbered in kept]
    newest = checkpoints[-1] if checkpoints else None
    if newest != claim.from_checkpoint:
        return (
            f"it begins with checkpoint {claim.from_checkpoint}, but the newest that it lists is "
            f"{newest}"
        )
    if any(later <= earlier for earlier, later in pairwise(checkpoints)):
        return f"it lists the checkpoints {checkpoints}, which are not in ascending order (CP4)"
    if any(numbered.entry.attempt >= claim.attempt for numbered in kept):
        return f"it claims attempt {claim.attempt}, but lists a checkpoint of a later attempt (CP6)"
    return None


def not_kept(entry: CheckpointCompleted | JobFinished, kept: list[NumberedCheckpoint]) -> str | None:
    """Return why `kept`, oldest first, cannot be what the entry lists as retained; None if it can."""
    checkpoints = [numbered.entry.checkpoint for numbered in kept]
    if isinstance(entry, CheckpointCompleted):
        checkpoints.append(entry.checkpoint)
    elif checkpoints[-1:] != [entry.checkpoint]:
        return f"the job ends with checkpoint {entry.checkpoint}, but it lists {checkpoints} (CP9)"
    if any(later <= earlier for earlier, later in pairwise(checkpoints)):
        return f"it lists the checkpoints {checkpoints}, which are not in ascending order (CP4)"
    return None
