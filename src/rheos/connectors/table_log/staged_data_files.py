"""Committables of sinks for tables with a log: decoding and checks, and the sink's id in the table."""

from __future__ import annotations

import hashlib

import msgspec

from rheos.connectors.files.publication.contract import damaged
from rheos.connectors.table_log.epoch_append import StagedDataFile
from rheos.core.errors import UnrestorableError

_decoder = msgspec.msgpack.Decoder(StagedDataFile)


def decoded_file(committable: bytes) -> StagedDataFile:
    """Return the data file that a committable describes. Raises UnrestorableError if it is damaged."""
    try:
        file = _decoder.decode(committable)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise damaged(str(error)) from error
    if "\0" in file.path or {"", ".", ".."} & set(file.path.split("/")):  # CP32
        raise damaged(f"the name of a data file is {file.path!r}")
    return file


def sink_id(log: str, file: StagedDataFile) -> str:
    """Return the id of the file's sink in its table (DL5, IC5), for a job with this log."""
    digest = hashlib.sha256(log.encode()).hexdigest()[:12]
    return f"rheos/{file.job}/{file.operator}/{digest}"


def other_table(file: StagedDataFile, named: str) -> UnrestorableError:
    """Return the error for a file that is staged for another table.

    Args:
        file: The file.
        named: The table of the sink, such as "Delta table lake/orders".

    Returns:
        The error.
    """
    return UnrestorableError(
        f"{file.rows} rows are staged for another table than the {named}, or for another key",
        hint="publish them with the unchanged job: start it once more, stop it with a "
        "savepoint, and start the changed program from there",
    )
