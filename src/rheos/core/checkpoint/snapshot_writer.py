"""Writes a subtask's snapshots concurrently with its processing, and reuses files of earlier ones.

A state is stored in one of two forms, and every checkpoint refers to the whole state:

- as a *chain* of parts: a FULL part and the deltas since (CP11). If nothing has changed, nothing is
  written. A failed write of a part invalidates all checkpoints until the next FULL part begins a new
  chain: the task informs the operator (`failures`), whose next snapshot is a full one;
- as a *set* of FILEs, identified by name and never changed. Each name is written once; if that fails,
  the next checkpoint that has the name writes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import msgspec
import pyarrow as pa

from rheos.core.checkpoint.names import state_path
from rheos.core.checkpoint.resumed_chains import Chains
from rheos.core.errors import CheckpointError, RheosError
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.ports import Completion, Content, Immediate, IoExecutor, Store
from rheos.core.protocol.snapshots import (
    PartMode,
    Snapshot,
    SnapshotFile,
    SnapshotPart,
    StateHandle,
    StateKind,
)
from rheos.core.safe_strings import named_error

Encode: TypeAlias = Callable[[pa.Table, StateKind, PartMode], Content]
"""Type of `state.format.encode`."""

INLINE_BYTES = 16 * 1024
"""Maximum size in bytes of a part that is stored in the log itself."""


@dataclass(frozen=True, slots=True)
class PartFailure:
    """A part or a file that could not be written."""

    operator: OperatorId
    state: str
    error: RheosError


@dataclass(frozen=True, slots=True)
class _Link:
    """A part, with one handle per piece, or one file of a set."""

    operator: OperatorId
    state: str
    completion: Completion[list[StateHandle]]

    def failed(self) -> Exception | None:
        try:
            self.completion.result()
        except Exception as error:
            return error
        return None


_Written: TypeAlias = dict[tuple[str, str], StateHandle | Exception]
"""Result of the writes of files, by state and name."""


class _FileOfSet:
    """The completion of one file, among several that one piece of work writes."""

    def __init__(self, written: Completion[_Written], file: tuple[str, str]) -> None:
        self._written = written
        self._file = file

    def done(self) -> bool:
        return self._written.done()

    def result(self) -> list[StateHandle]:
        found = self._written.result()[self._file]
        if isinstance(found, Exception):
            raise found
        return [found]


class PendingSnapshot:
    """The parts and files of a checkpoint that are being written. Completions of the executor wake the
    mailbox, which then polls this object."""

    def __init__(self, checkpoint: CheckpointId, links: Sequence[_Link], new: Sequence[_Link]) -> None:
        self.checkpoint = checkpoint
        self._links = links
        self._new = new

    def done(self) -> bool:
        """Return whether every part and file, including earlier ones, is written or has failed."""
        return all(link.completion.done() for link in self._links)

    def failures(self) -> list[PartFailure]:
        """Return the failures of the finished writes. If there are any, decline the checkpoint."""
        failed = []
        for link in self._links:
            error = link.failed()
            if isinstance(error, RheosError):
                failed.append(PartFailure(link.operator, link.state, error))
            elif error is not None:
                message = f"state {link.state!r} could not be written: {named_error(error)}"
                wrapped = CheckpointError(message)
                wrapped.__cause__ = error
                failed.append(PartFailure(link.operator, link.state, wrapped))
        return failed

    def handles(self) -> list[StateHandle]:
        """Return the handles of successful writes, each state's in the order of application."""
        return [handle for link in self._links for handle in link.completion.result()]

    def written_bytes(self) -> int:
        """Return the number of bytes written for this checkpoint, without reused parts and files."""
        return sum(handle.size_bytes for link in self._new for handle in link.completion.result())


class SnapshotWriter:
    """Writes the snapshots of one subtask in one attempt."""

    def __init__(
        self,
        job: JobId,
        attempt: Attempt,
        subtask: int,
        store: Store,
        io: IoExecutor,
        encode: Encode,
        inline_bytes: int = INLINE_BYTES,
    ) -> None:
        self._job = job
        self._attempt = attempt
        self._subtask = subtask
        self._store = store
        self._io = io
        self._encode = encode
        self._inline_bytes = inline_bytes
        self._chains: dict[tuple[OperatorId, str], list[_Link]] = {}
        self._files: dict[tuple[OperatorId, str, str], _Link] = {}

    def adopt(self, handles: Iterable[StateHandle], chains: Chains = MappingProxyType({})) -> None:
        """Reuse the files of the checkpoint that the attempt starts from, which are already written.

        Args:
            handles: all handles of the checkpoint. Names of FILEs are unique over the life of a job, so
                those of all subtasks are reused (CP20).
            chains: chains that the first snapshot may continue with a DELTA (CP11).
        """
        for (operator, state), chain in chains.items():
            self._chains[operator, state] = [_Link(operator, state, Immediate(chain))]
        for handle in handles:
            if handle.mode is PartMode.FILE:
                own = msgspec.structs.replace(handle, subtask=self._subtask)
                link = _Link(handle.operator, handle.state, Immediate([own]))
                self._files[handle.operator, handle.state, handle.file] = link

    def begin(
        self, checkpoint: CheckpointId, snapshots: Sequence[tuple[OperatorId, Snapshot]]
    ) -> PendingSnapshot:
        """Submit the writes. Each snapshot is the whole state: omitted states no longer exist."""
        chains: dict[tuple[OperatorId, str], list[_Link]] = {}
        files: dict[tuple[OperatorId, str, str], _Link] = {}
        new: list[_Link] = []
        for operator, snapshot in snapshots:
            for part in snapshot.parts:
                key = (operator, part.state)
                assert key not in chains, f"a snapshot of {operator} names {part.state!r} twice"
                before = self._chains.get(key, [])
                assert before or part.mode is PartMode.FULL, "CP11: a chain begins with a FULL part"
                if part.unchanged:
                    chains[key] = before
                    continue
                link = self._submit(operator, part, self._places(checkpoint, operator, part.state))
                new.append(link)
                chains[key] = [link] if part.mode is PartMode.FULL else [*before, link]
            new += self._submit_files(checkpoint, operator, snapshot, files)
        self._chains = chains
        self._files = files
        links = [link for chain in chains.values() for link in chain]
        return PendingSnapshot(checkpoint, [*links, *files.values()], new)

    # --- parts ------------------------------------------------------------------------------------

    def _places(
        self, checkpoint: CheckpointId, operator: OperatorId, state: str
    ) -> Callable[[str], str]:
        return lambda name: state_path(
            self._job, self._attempt, checkpoint, operator, self._subtask, state, name
        )

    def _submit(self, operator: OperatorId, part: SnapshotPart, place: Callable[[str], str]) -> _Link:
        def write() -> list[StateHandle]:
            given = part.write()
            tables = [given] if isinstance(given, pa.Table) else given
            handles = [
                self._put(
                    operator,
                    part.state,
                    part.kind,
                    part.mode,
                    self._encode(table, part.kind, part.mode),
                    place(f"{number}.arrow"),
                    rows=table.num_rows,
                )
                for number, table in enumerate(tables)
            ]
            assert handles, f"the part {part.state!r} returned no table, not even an empty one"
            return handles

        return _Link(operator, part.state, self._io.submit(write))

    def _put(
        self,
        operator: OperatorId,
        state: str,
        kind: StateKind,
        mode: PartMode,
        data: Content,
        path: str,
        rows: int = 0,
        file: str = "",
    ) -> StateHandle:
        inline = len(data) <= self._inline_bytes
        if not inline:
            self._store.put(path, data)
        return StateHandle.of(
            data,
            operator=operator,
            subtask=self._subtask,
            state=state,
            kind=kind,
            mode=mode,
            rows=rows,
            path=path,
            file=file,
            inline=inline,
        )

    # --- files ------------------------------------------------------------------------------------

    def _submit_files(
        self,
        checkpoint: CheckpointId,
        operator: OperatorId,
        snapshot: Snapshot,
        files: dict[tuple[OperatorId, str, str], _Link],
    ) -> list[_Link]:
        """Add the snapshot's files to `files`, and return those that are written now."""
        missing: dict[tuple[str, str], SnapshotFile] = {}
        for file in snapshot.files:
            key = (operator, file.state, file.name)
            assert key not in files, f"the file {file.name!r} exists twice"
            known = self._files.get(key)
            if known is None or (known.completion.done() and known.failed() is not None):
                missing[file.state, file.name] = file
            else:
                files[key] = known
        release = snapshot.release
        if not missing:
            if release is not None:
                self._io.submit(release)
            return []

        def write() -> _Written:
            try:
                return {
                    key: self._write_file(checkpoint, operator, file) for key, file in missing.items()
                }
            finally:
                if release is not None:
                    release()

        written = self._io.submit(write)
        new = []
        for state, name in missing:
            link = _Link(operator, state, _FileOfSet(written, (state, name)))
            files[operator, state, name] = link
            new.append(link)
        return new

    def _write_file(
        self, checkpoint: CheckpointId, operator: OperatorId, file: SnapshotFile
    ) -> StateHandle | Exception:
        """Write a file. Return its handle or its error, so that other writes continue."""
        try:
            return self._put(
                operator,
                file.state,
                StateKind.KEYED,
                PartMode.FILE,
                file.read(),
                self._places(checkpoint, operator, file.state)(file.name),
                file=file.name,
            )
        except Exception as error:
            return error
