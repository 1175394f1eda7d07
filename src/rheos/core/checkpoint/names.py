"""Names as path components, and checks of the paths that a file names.

Rheos names files only by `safe_name`. If a path that was read back contains anything else, Rheos has
not written it, and neither opens nor deletes the file (CP32).
"""

from __future__ import annotations

import re
import zlib
from urllib.parse import quote

from rheos.core.protocol.ids import Attempt, CheckpointId, JobId, OperatorId
from rheos.core.protocol.snapshots import PartMode, StateHandle

_COMPONENT = re.compile(r"(?!\.)[A-Za-z0-9_.~% -]{1,255}")


def safe_name(text: str) -> str:
    """Return `text` as one path component: readable and injective. Very long ones get a checksum."""
    name = quote(text, safe="").replace("%20", " ") or "%"
    if name.startswith("."):
        name = "%2E" + name[1:]
    return name if len(name) <= 100 else f"{name[:90]}~{zlib.crc32(text.encode()):08x}"


def is_component(name: str) -> bool:
    """Return whether this is a component that `safe_name` makes: no separator or leading dot.

    >>> is_component("0-counts-0.arrow"), is_component(".."), is_component("a/b"), is_component("")
    (True, False, False, False)
    """
    return _COMPONENT.fullmatch(name) is not None


def is_below(path: str, folder: str) -> bool:
    """Return whether the path is a file below the folder, with names from `safe_name` only.

    >>> is_below("job/state/1/x.arrow", "job/state"), is_below("job/state/../x", "job/state")
    (True, False)
    """
    prefix = f"{folder}/"
    return path.startswith(prefix) and all(map(is_component, path.removeprefix(prefix).split("/")))


def state_folder(job: JobId) -> str:
    return f"{safe_name(job)}/state"


def state_path(
    job: JobId,
    attempt: Attempt,
    checkpoint: CheckpointId,
    operator: OperatorId,
    subtask: int,
    state: str,
    name: str = "0.arrow",
) -> str:
    """Return the path at which a subtask writes a piece of a part (`0.arrow`, `1.arrow`, ...), or a
    file of a set. The path contains the attempt, so no two attempts write the same file."""
    file = f"{subtask}-{safe_name(state)}-{safe_name(name)}"
    return f"{state_folder(job)}/{attempt}/{checkpoint}/{safe_name(operator)}/{file}"


def handle_problem(handle: StateHandle, parallelism: int, folder: str) -> str | None:
    """Return the problem of a handle that was read back, or that a subtask has sent; None if it is
    valid. `folder` must contain its file; `parallelism` is that of the attempt that wrote it."""
    of = f"state {handle.state!r} of operator {handle.operator!r}"
    if not 0 <= handle.subtask < parallelism:
        return f"{of} belongs to subtask {handle.subtask}, but the parallelism was {parallelism}"
    if handle.path and not is_below(handle.path, folder):
        return f"{of} refers to {handle.path!r}, which is not a state file below {folder!r}"
    if (handle.mode is PartMode.FILE) != bool(handle.file) or (
        handle.file and not is_component(handle.file)
    ):
        return f"{of} has a file named {handle.file!r}"
    wrong_size = handle.size_bytes < 0 if handle.path else handle.size_bytes != len(handle.inline)
    if wrong_size or handle.rows < 0:
        return f"{of} has {handle.rows} rows in {handle.size_bytes} bytes"
    return None
