"""The savepoint that a released version wrote, as a folder."""

from __future__ import annotations

import zipfile
from pathlib import Path

from rheos.core.protocol.snapshots import StateHandle
from rheos.core.state import format as state_format
from tests.compat.make_golden import PUBLISHED

PACKED = Path(__file__).parents[2] / "compat" / "0.1.0" / "savepoint.zip"


def unpack(folder: Path) -> str:
    with zipfile.ZipFile(PACKED) as packed:
        packed.extractall(folder)
    (folder / PUBLISHED).unlink()
    return str(folder)


def rows_of(
    folder: str, handles: list[StateHandle], state: tuple[str, str]
) -> list[tuple[object, ...]]:
    """Return the stored contents of the files of a state, sorted."""
    rows: list[tuple[object, ...]] = []
    for handle in handles:
        if (handle.operator, handle.state) == state:
            table = state_format.decode((Path(folder) / handle.path).read_bytes(), None)
            rows += [tuple(row.values()) for row in table.to_pylist()]
    return sorted(rows, key=repr)
