"""`rheos check --compiled`: compares both forms of each function of a program."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rheos.api.overrides import Overrides
from rheos.api.program_file import planned_program
from rheos.cli.terminal import FAILED, report, say
from rheos.core.errors import RheosError
from rheos.core.safe_strings import shown
from rheos.ops.compiled_forms.form_comparison import FormDifference
from rheos.ops.compiled_forms.program_check import CheckedFunctions, CompiledCheck, check_program


def check_forms(
    file: Path, arguments: Sequence[str], most_rows: int, settings: Overrides, *, as_json: bool
) -> int:
    """Print the result. Return the exit code: 1 if two forms differ, or if the program fails, and 2 if
    the command cannot be used here."""
    try:
        # Output of the program is not part of the JSON.
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            checked = check_program(planned_program(file, arguments, settings), most_rows)
    except (Exception, KeyboardInterrupt) as error:
        return report(error)
    if as_json:
        print(json.dumps(_object(checked), indent=2))
    else:
        for line in _lines(checked):
            say(line)
    if checked.error is not None:
        return report(checked.error) or FAILED
    return 0 if checked.good else FAILED


# --- output -------------------------------------------------------------------------------------------


def _lines(checked: CompiledCheck) -> Iterator[str]:
    agree = differ = interpreted = unchecked = 0
    for each in checked.operators:
        place = f"{each.site}: {each.operator}"
        if each.result is not None:
            names, rows = ", ".join(each.functions), f"{each.result.rows:,} rows"
            difference = each.result.difference
            if not each.result.rows:
                unchecked += len(each.functions)
                yield f"{place}: {names}: compiled, but no row arrived"
            elif difference is None:
                agree += len(each.functions)
                yield f"{place}: {names}: both forms agree for {rows}"
            else:
                differ += len(each.functions)
                yield f"{place}: {names}: the forms differ"
                yield from _difference_lines(difference)
            for error in each.result.repeated:
                yield f"  compiled code failed, so Python took over: {_error(error)}"
        for name, reason in each.interpreted.items():
            interpreted += 1
            yield f"{place}: {name}: not compiled: {reason}"
    read = ", ".join(f"{rows:,} rows of {name}" for name, rows in checked.rows_read.items())
    counts = f"{agree} agree, {differ} differ, {unchecked} received no row"
    yield f"functions: {counts}, {interpreted} not compiled; read {read}"


def _difference_lines(difference: FormDifference) -> Iterator[str]:
    if difference.record is not None:
        yield f"  record: {shown(difference.record)}"
    if difference.key is not None:
        yield f"  key: {shown(difference.key)}"
    yield f"  {difference.what}, interpreted: {difference.interpreted}"
    yield f"  {difference.what}, compiled: {difference.compiled}"


def _error(error: RheosError) -> str:
    return error.what if error.site is None else f"{error.site}: {error.what}"


def _object(checked: CompiledCheck) -> dict[str, Any]:
    return {
        "good": checked.good and checked.error is None,
        "rows_read": checked.rows_read,
        "error": None if checked.error is None else _error(checked.error),
        "operators": [_operator(each) for each in checked.operators],
    }


def _operator(each: CheckedFunctions) -> dict[str, Any]:
    result = each.result
    difference = None if result is None else result.difference
    return {
        "operator": each.operator,
        "kind": each.kind,
        "line": str(each.site),
        "compiled": list(each.functions),
        "not_compiled": each.interpreted,
        "rows": 0 if result is None else result.rows,
        "repeated_by_python": [] if result is None else [_error(error) for error in result.repeated],
        "difference": None
        if difference is None
        else {
            "record": None if difference.record is None else shown(difference.record),
            "key": None if difference.key is None else shown(difference.key),
            "what": difference.what,
            "interpreted": difference.interpreted,
            "compiled": difference.compiled,
        },
    }
