"""`files.source(...)`: checks the arguments and creates the source."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from rheos.connectors.files.compression import Codec, check_codec
from rheos.connectors.files.listing import Kind, by_name, check_kind, lines_of
from rheos.connectors.files.partition_reading import without_columns
from rheos.connectors.files.partitions import check_partitions, partition_columns
from rheos.connectors.files.source import FileSource
from rheos.connectors.files.utf8_file import check_encoding
from rheos.connectors.files.watching import Order, WatchedFiles
from rheos.connectors.replay import Replay
from rheos.connectors.urls import absolute
from rheos.connectors.user_formats import declared_rows
from rheos.core.connectors.rejected_records import OnError, check_on_error
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.formats.contract import Format
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.site import located_at_call


@located_at_call
def source(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    schema: Any = None,
    format: Kind | Format | None = None,
    compression: Codec | None = None,
    encoding: str = "utf-8",
    on_error: OnError = "fail",
    partition_by: Sequence[str] = (),
    replay: Replay | None = None,
    discover: Duration | None = None,
    order: Order = "name",
    forget: Duration | None = None,
) -> FileSource | WatchedFiles:
    """Read rows from files, Parquet or lines (JSON Lines, CSV, text), as a bounded source or as one
    that watches a folder for new files.

    ```python
    logs = rh.files.source("logs/*.jsonl.gz", schema=LogEvent, on_error="skip")
    events = env.from_source(logs)
    ```

    Args:
        path: a file, a folder, a glob, or a list of these; local, or a URL that fsspec supports. Files
            end in .parquet, .pq, .jsonl, .ndjson, .json or .csv; files of lines may have .gz or .zst
            after that.
        schema: a dataclass, a pyarrow.Schema or a dict. Further columns in the files are ignored. Not
            needed for text, whose rows have one column, `value`.
        format: overrules the files' names: "parquet", "jsonl", "csv", "text", or a format with its own
            settings, such as `rh.formats.csv(delimiter=";")`.
        compression: compression of files of lines, "none", "gzip" or "zstd"; overrules the files'
            names.
        encoding: encoding of files of lines, by its name in Python: "latin-1", "cp1252", "utf-16".
            After a restart, files that are not in UTF-8 are read from their beginning.
        on_error: what to do with a row that does not fit the schema: "fail" the job with its file and
            line, or "skip" it, which counts it (`skipped`) and emits it to the side output "rejected".
        partition_by: columns of the schema whose values are in the names of folders, in the layout of
            Hive: `day=2026-03-01/part-....parquet`. The files need not contain them. With
            `on_error="skip"`, a value that does not fit rejects all rows of its folder.
        replay: emit rows at the pace of their own time, or a multiple of it. By default, rows are read
            as fast as possible.
        discover: interval at which to look for new files ("10s"); the source never ends. A file is
            discovered when it has not changed between two listings. Names that begin with "." or "_",
            and unknown extensions, are ignored: so write a file under such a name, and rename it when
            it is complete. Discovered files must not change any more.
        order: order in which the files of one listing are assigned and opened: by "name", or by the
            "time" of their last change. Several are read at once.
        forget: how long to remember deleted files ("7d"); needs `order="time"`. A file that was read
            and deleted is forgotten once its last change is this much older than that of the newest
            file. This bounds the state, which otherwise contains every file ever read. A newly
            discovered file that is this old is an error and is not read, so choose more than the
            maximum delay of files.

    Returns:
        The source, for `env.from_source`. It is bounded unless `discover` is set.

    Raises:
        ProgramError: An argument is invalid or lacks another that it needs.
        SchemaError: Files of rows have no schema, or the schema lacks the column of `replay`.
    """
    check_on_error(on_error)
    check_kind(format)
    check_codec(compression)
    code = check_encoding(encoding)
    paths = tuple(absolute(one) for one in ([path] if isinstance(path, str | os.PathLike) else path))
    kinds = [format] if format is not None else [by_name(one) for one in paths]
    of_lines = [found for kind in kinds if (found := lines_of(kind)) is not None]
    columns = partition_columns(partition_by)
    if of_lines:
        rows, record = declared_rows(of_lines[0], schema)
    elif schema is not None:
        rows, record = resolve(schema)
    else:
        raise SchemaError(
            "a source of files needs a schema",
            hint="pass schema=, a dataclass, a pyarrow.Schema or a dict that describes a row",
        )
    check_partitions(columns, rows, "the schema")
    for each in of_lines:
        each.check_decodes(without_columns(rows, columns))
    if replay is not None:
        if replay.on not in rows.names:
            raise SchemaError(
                f"the replay's column {replay.on!r} is not in the schema",
                hint=f"the schema has {', '.join(rows.names)}",
            )
        if replay.on in columns:
            raise ProgramError(
                f"the replay's column {replay.on!r} is a partition column, so all rows of a file have "
                "the same time",
                hint="replay by a column of the files",
            )
        replay.column.check(rows, "the replay's column")
    if order not in ("name", "time"):
        raise ProgramError(f"order={order!r} is not known", hint='write "name" or "time"')
    if forget is not None and (discover is None or order != "time"):
        raise ProgramError(
            "forget= needs a folder that is watched in order of time",
            hint='add discover="10s" and order="time", or leave out forget=',
        )
    if discover is None:
        if order != "name":
            raise ProgramError(
                "order= needs a folder that is watched",
                hint='add discover="10s", or leave out order=',
            )
        return FileSource(paths, rows, record, format, on_error, replay, compression, code, columns)
    if replay is not None:
        raise ProgramError(
            "a watched folder emits rows as they arrive, so it cannot be replayed at a pace",
            hint="leave out discover= or replay=",
        )
    every_ms = duration_ms(discover)
    if every_ms < 1:
        raise ProgramError(f"discover={discover!r} is too short", hint='write discover="10s"')
    return WatchedFiles(
        paths,
        rows,
        record,
        format,
        on_error,
        None,
        compression,
        code,
        columns,
        order=order,
        discovery_ms=every_ms,
        forget_ms=None if forget is None else duration_ms(forget),
    )
