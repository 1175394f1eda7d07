"""Optional files next to a job's log: sealed, bounded, and each belonging to one job."""

from __future__ import annotations

from typing import Protocol, TypeVar

import msgspec

from rheos.core.protocol.sealed_files import SealedFileKind


class _NamesJob(Protocol):
    @property
    def job(self) -> str: ...


F = TypeVar("F", bound=_NamesJob)


def sealed_file(what: str, key: str, newest: int) -> SealedFileKind:
    """Return the envelope of a file. `what` names it with its path; `newest` is its newest format."""
    return SealedFileKind(
        what=what,
        key=key,
        newest=newest,
        if_damaged="delete it: the job does not need it",
        if_later="read it with the version of rheos that wrote it, or a later one",
    )


def decode_file(
    sealed: SealedFileKind, data: bytes, decoder: msgspec.json.Decoder[F], job: str, max_bytes: int
) -> F:
    """Return the content of a file.

    Raises:
        UnrestorableError: the file is damaged, larger than `max_bytes`, or belongs to another job.
    """
    if len(data) > max_bytes:
        raise sealed.damaged(f"it has {len(data)} bytes, but the maximum is {max_bytes}")
    content = sealed.decoded(sealed.open(data)[1], decoder)
    if content.job != job:
        raise sealed.damaged(f"it belongs to the job {content.job!r}")
    return content
