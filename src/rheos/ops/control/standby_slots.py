"""The slots of a standby driver, which restore the checkpoints of the running job ahead (UP10).

The standby starts as a driver that waits for the job, as the successor in a handover does. It requests
nothing of the driver that runs the job. When that driver is lost, it claims the job (UP4).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, runtime_checkable

from rheos.core.checkpoint.standby import LOOK_EVERY_MS
from rheos.core.errors import CheckpointError
from rheos.ops.control.driver_note import HeldNote, take_from
from rheos.runtimes.job_handle import JobHandle
from rheos.runtimes.job_operations import GetSuccession

_LOOK_MS = 50
_LOOKS_PER_REQUEST = LOOK_EVERY_MS // _LOOK_MS


@runtime_checkable
class PreparedJob(Protocol):
    """A job whose processes can start before it runs."""

    def prepare(self) -> None:
        """Start the workers' processes, and import the program there. Raise the RheosError of a worker
        that cannot."""
        ...


class StandbySlots:
    """The slots of one standby driver."""

    def __init__(self, submit: Callable[[], JobHandle]) -> None:
        """Start nothing yet. `submit` starts a driver that waits for the job."""
        self._submit = submit
        self._job: JobHandle | None = None

    def keep(self) -> None:
        """Start the slots if they have not started. Call it repeatedly while another driver runs the
        job.

        Raises:
            RheosError: the slots cannot start, or the program does not fit the job's state (UP2).
        """
        if self._job is None:
            self._job = job = self._submit()
            if isinstance(job, PreparedJob):
                job.prepare()
        elif self._job.status().state.is_over:
            self._job.wait(0)

    def claim(self, note: HeldNote, pause: Callable[[float], object]) -> JobHandle | None:
        """Claim the job whose note this driver has taken. Return its handle, or None if the slots have
        not started.

        Args:
            note: note of this driver.
            pause: waits for a number of seconds.

        Raises:
            CheckpointError: another driver has taken the job meanwhile.
        """
        job, looks = self._job, 0
        if job is None:
            return None
        while job.ask(GetSuccession(checked=False)).situation is not None:
            if job.status().state.is_over:
                break
            if looks % _LOOKS_PER_REQUEST == 0:
                _request(job, note)
            looks += 1
            pause(_LOOK_MS / 1000)
        self._job = None
        return job

    def close(self) -> None:
        """End the driver that waits, unless it has claimed the job."""
        job, self._job = self._job, None
        if job is not None:
            job.cancel()
            with suppress(Exception):
                job.wait(0)


def _request(job: JobHandle, note: HeldNote) -> None:
    """Request the claim, unless another driver has taken the job. The log decides all the same."""
    with suppress(OSError):
        present = note.present()
        if present is not None and present.owner != note.owner:
            raise CheckpointError(
                f"{present.driver} has taken over the job", hint="start this standby again"
            )
        job.ask(take_from(note.previous))
