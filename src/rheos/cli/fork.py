"""`rheos fork`: compares a changed program's output with a running job's, on the same input."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pyarrow.parquet as pq
from rich.table import Table
from rich.text import Text

from rheos.cli.jobs import console, plain_table
from rheos.cli.terminal import report, say
from rheos.core.checkpoint.names import safe_name
from rheos.core.errors import ConfigurationError
from rheos.ops.forks.comparison import ForkResult
from rheos.ops.forks.difference import OutputDifference
from rheos.ops.forks.first_difference import FirstDifference
from rheos.ops.forks.forking import fork


def show_fork(
    job: str,
    file: Path,
    arguments: Sequence[str],
    *,
    for_: str | None,
    key: Sequence[str],
    parameters: Mapping[str, str],
    against: Path | None,
    checkpoint_dir: str | None,
    from_savepoint: str | None,
    allow_dropped: bool,
    new_aggregates: Literal["null", "since"] | None,
    renamed: Mapping[str, str] | None,
    samples: int,
    out: Path | None,
    as_json: bool,
) -> int:
    """Print the differences. Return the exit code, which is 0 even if there are differences."""
    try:
        if out is not None:
            _make(out)
        if for_ is not None:
            say(f"reading {for_} more of event time, or as long in processing time", error=True)
        found = fork(
            job,
            file,
            arguments=list(arguments) or None,
            for_=for_,
            key=key,
            parameters=parameters,
            against=against,
            checkpoint_dir=checkpoint_dir,
            from_savepoint=from_savepoint,
            allow_dropped=allow_dropped,
            new_aggregates=new_aggregates,
            renamed=renamed,
        )
        if out is not None:
            _write(found, out)
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    if as_json:
        print(json.dumps(fork_object(found, samples), indent=2, default=str))
    else:
        print_fork(found, samples, waited=for_ is not None)
    return 0


# --- all rows as files
# ----------------------------------------------------------------------------------


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        empty = not any(out.iterdir())
    except OSError as error:
        raise ConfigurationError(f"the folder {str(out)!r} cannot be created: {error}") from error
    if not empty:
        raise ConfigurationError(
            f"the folder {str(out)!r} is not empty", hint="name a folder that does not exist yet"
        )


def _write(found: ForkResult, out: Path) -> None:
    for side, tables in (("old", found.old), ("new", found.new)):
        (out / side).mkdir()
        for sink, rows in tables.items():
            pq.write_table(rows, out / side / f"{safe_name(sink)}.parquet")
    (out / "difference").mkdir()
    for sink, output in found.outputs.items():
        output.rows.write_parquet(out / "difference" / f"{safe_name(sink)}.parquet")


# --- output
# ---------------------------------------------------------------------------------------------


def print_fork(found: ForkResult, samples: int, *, waited: bool) -> None:
    """Print the differences for people.

    Args:
        found: the result of the fork.
        samples: number of differences to print for each sink.
        waited: whether the input was read for a duration.
    """
    shown = console()
    read = ", ".join(f"{rows:,} rows of {source!r}" for source, rows in found.rows_read.items())
    shown.print(
        Text(f"both programs, from checkpoint {found.checkpoint} of {found.job}, over {read}\n")
    )
    headings = ("sink", "rows old", "rows new", "same", "only old", "only new", "changed", "keys")
    table = plain_table(*headings, "by", "fields changed")
    for output in found.outputs.values():
        counts = [output.old_rows, output.new_rows, output.same]
        counts += [output.only_old, output.only_new, output.changed, output.keys]
        fields = ", ".join(f"{name} ({rows:,})" for name, rows in output.fields.items())
        table.add_row(
            Text(output.sink), *(f"{count:,}" for count in counts), ", ".join(output.key), Text(fields)
        )
    shown.print(table)
    for output in found.outputs.values():
        if output.rows.height and samples:
            shown.print(Text(f"\n{output.sink}, the first of {output.rows.height:,} differences:"))
            shown.print(_sampled(output, samples))
    if found.first is not None and samples:
        shown.print(Text(f"\nthe programs begin to differ at {found.first}:"))
        shown.print(_sampled(found.first.output, 1))
    for line in _remarks(found, waited):
        shown.print(Text(line, "yellow"))


def _sampled(output: OutputDifference, samples: int) -> Table:
    """Return a table of sample differences. A changed value is shown as `old -> new`."""
    rows = output.rows.schema["old"]
    assert isinstance(rows, pl.Struct)
    others = [field.name for field in rows.fields if field.name not in output.key]
    shown = [*output.key, *others]
    table = plain_table("difference", *shown)
    for row in output.rows.head(samples).to_dicts():
        old, new = row["old"] or row["new"], row["new"] or row["old"]
        changed = ((name in row["fields"], _value(old[name]), _value(new[name])) for name in shown)
        texts = (f"{was} -> {now}" if differs else was for differs, was, now in changed)
        table.add_row(row["difference"], *map(Text, texts))
    return table


def _value(value: Any) -> str:
    return "" if value is None else str(value)


def _remarks(found: ForkResult, waited: bool) -> list[str]:
    lines = [f"\n{note}" for note in found.notes]
    for output in found.outputs.values():
        for what, names in (
            ("only in the output of the running program", output.columns_gone),
            ("only in the output of the changed program", output.columns_added),
            ("compared as strings because their types differ:", output.cast),
        ):
            if names:
                lines.append(f"\n{output.sink}: {what} {', '.join(names)}")
    if not any(found.rows_read.values()):
        say = (
            "no row arrived within that time. Pass a longer one"
            if waited
            else (
                "the job has already read all available input. Add --for 10m to keep reading "
                "alongside it"
            )
        )
        lines.append(f"\nno input was read: {say}, or --from-savepoint to begin earlier")
    elif found.alike:
        lines.append("\nno output differs")
    if not found.alike and found.reservations:
        lines.append("\nthe differences may have other causes than the change:")
        lines += [f"  {reservation}" for reservation in found.reservations]
    return lines


def fork_object(found: ForkResult, samples: int) -> dict[str, Any]:
    return {
        "job": found.job,
        "checkpoint": found.checkpoint,
        "rows_read": dict(found.rows_read),
        "alike": found.alike,
        "outputs": [_output_object(output, samples) for output in found.outputs.values()],
        "first": None if found.first is None else _first_object(found.first),
        "notes": list(found.notes),
        "reservations": [
            {"operator": each.operator, "site": str(each.site), "why": each.why}
            for each in found.reservations
        ],
    }


def _first_object(first: FirstDifference) -> dict[str, Any]:
    return {
        "operator": first.operator,
        "site": str(first.site),
        "tag": first.tag,
        "key": list(first.output.key),
        **first.output.rows.head(1).to_dicts()[0],
    }


def _output_object(output: OutputDifference, samples: int) -> dict[str, Any]:
    return {
        "sink": output.sink,
        "key": list(output.key),
        "rows_old": output.old_rows,
        "rows_new": output.new_rows,
        "same": output.same,
        "only_old": output.only_old,
        "only_new": output.only_new,
        "changed": output.changed,
        "keys": output.keys,
        "fields": output.fields,
        "columns_gone": list(output.columns_gone),
        "columns_added": list(output.columns_added),
        "compared_as_text": list(output.cast),
        "samples": output.rows.head(samples).to_dicts(),
    }
