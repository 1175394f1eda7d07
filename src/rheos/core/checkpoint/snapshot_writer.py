"""Writes a subtask's snapshots concurrently with its processing, and reuses files of earlier ones.

A state is stored in one of two forms, and every checkpoint refers to the whole state:

- as a *chain* of parts: a FULL part and the deltas since (CP11). If nothing has changed, nothing is
  written. A failed write of a part invalidates all checkpoints until the next FULL part begins a new
  chain: the task informs the operator (`failures`), whose next snapshot is a full one;
- as a *set* of FILEs, identified by name and never changed. Each name is written once; if that fails,
  the next checkpoint that has the name writes it. The set is prepared on the I/O executor. Then the
  mailbox, which polls the checkpoint, lists its files and submits the writes (CP20).
"""

from __future__ import annotations

from collections import deque
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
    SnapshotFiles,
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


_Written: TypeAlias = dict[str, StateHandle | Exception]
"""Result of the writes of files, by name."""


class _FileOfSet:
    """The completion of one file, among several that one piece of work writes."""

    def __init__(self, written: Completion[_Written], file: str) -> None:
        self._written = written
        self._file = file

    def done(self) -> bool:
        return self._written.done()

    def result(self) -> list[StateHandle]:
        found = self._written.result()[self._file]
        if isinstance(found, Exception):
            raise found
        return [found]


class _FailedSet:
    """The completion of a set whose files could not be written or listed."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def done(self) -> bool:
        return True

    def result(self) -> list[StateHandle]:
        raise self._error


class PendingSnapshot:
    """The parts and files of a checkpoint that are being written. Completions of the executor wake the
    mailbox, which then polls this object."""

    def __init__(self, checkpoint: CheckpointId, list_sets: Callable[[], None]) -> None:
        """Create it. `list_sets` adds the files of sets that have been prepared since."""
        self.checkpoint = checkpoint
        self.unlisted = 0
        """Number of sets whose files are not listed yet."""
        self._list_sets = list_sets
        self._links: list[_Link] = []
        self._new: list[_Link] = []

    def add(self, links: Iterable[_Link], new: Iterable[_Link]) -> None:
        """Add parts or files that belong to the checkpoint, and those of them that it writes."""
        self._links += links
        self._new += new

    def done(self) -> bool:
        """Return whether every part and file, including earlier ones, is written or has failed."""
        self._list_sets()
        return not self.unlisted and all(link.completion.done() for link in self._links)

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


@dataclass(frozen=True, slots=True)
class _PreparedSet:
    """A set of files whose last files are being written."""

    pending: PendingSnapshot
    operator: OperatorId
    files: SnapshotFiles
    release: Callable[[], None] | None
    prepared: Completion[None]


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
        self._files: dict[tuple[OperatorId, str], dict[str, _Link]] = {}
        """Files of the newest listed sets, by operator and state, and by name."""
        self._unlisted: deque[_PreparedSet] = deque()
        """Sets that are being prepared, in the order of their snapshots."""

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
                self._files.setdefault((handle.operator, handle.state), {})[handle.file] = link

    def begin(
        self, checkpoint: CheckpointId, snapshots: Sequence[tuple[OperatorId, Snapshot]]
    ) -> PendingSnapshot:
        """Submit the writes. Each snapshot is the whole state: omitted states no longer exist."""
        chains: dict[tuple[OperatorId, str], list[_Link]] = {}
        stored: set[tuple[OperatorId, str]] = set()
        new: list[_Link] = []
        pending = PendingSnapshot(checkpoint, self._list_sets)
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
            if snapshot.files is not None:
                stored.add((operator, snapshot.files.state))
                self._prepare_set(pending, operator, snapshot.files, snapshot.release)
            elif snapshot.release is not None:
                self._io.submit(snapshot.release)
        self._chains = chains
        self._files = {key: files for key, files in self._files.items() if key in stored}
        pending.add([link for chain in chains.values() for link in chain], new)
        self._list_sets()
        return pending

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

    def _prepare_set(
        self,
        pending: PendingSnapshot,
        operator: OperatorId,
        files: SnapshotFiles,
        release: Callable[[], None] | None,
    ) -> None:
        prepared = self._io.submit(files.prepare)
        self._unlisted.append(_PreparedSet(pending, operator, files, release, prepared))
        pending.unlisted += 1

    def _list_sets(self) -> None:
        """List the files of prepared sets, and submit their writes. Sets follow each other in the order
        of their snapshots, so that a later one refers to the files of an earlier one."""
        while self._unlisted and self._unlisted[0].prepared.done():
            prepared = self._unlisted.popleft()
            prepared.pending.unlisted -= 1
            try:
                prepared.prepared.result()
                files = prepared.files.complete()
            except Exception as error:
                if prepared.release is not None:
                    self._io.submit(prepared.release)
                failed = _Link(prepared.operator, prepared.files.state, _FailedSet(error))
                prepared.pending.add([failed], [])
            else:
                self._submit_files(prepared, files)

    def _submit_files(self, prepared: _PreparedSet, files: Sequence[SnapshotFile]) -> None:
        """Submit the writes of files that are not written yet, and add all to the checkpoint."""
        operator, state, release = prepared.operator, prepared.files.state, prepared.release
        checkpoint = prepared.pending.checkpoint
        before = self._files.get((operator, state), {})
        links: dict[str, _Link] = {}
        missing: list[SnapshotFile] = []
        for file in files:
            known = before.get(file.name)
            if known is None or (known.completion.done() and known.failed() is not None):
                missing.append(file)
            else:
                links[file.name] = known

        def write() -> _Written:
            try:
                return {
                    file.name: self._write_file(checkpoint, operator, state, file) for file in missing
                }
            finally:
                if release is not None:
                    release()

        written = self._io.submit(write)
        new = {file.name: _Link(operator, state, _FileOfSet(written, file.name)) for file in missing}
        links |= new
        assert len(links) == len(files), f"a file of {state!r} exists twice"
        self._files[operator, state] = links
        prepared.pending.add(links.values(), new.values())

    def _write_file(
        self, checkpoint: CheckpointId, operator: OperatorId, state: str, file: SnapshotFile
    ) -> StateHandle | Exception:
        """Write a file. Return its handle or its error, so that other writes continue."""
        try:
            return self._put(
                operator,
                state,
                StateKind.KEYED,
                PartMode.FILE,
                file.read(),
                self._places(checkpoint, operator, state)(file.name),
                file=file.name,
            )
        except Exception as error:
            return error
