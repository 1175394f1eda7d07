"""`rheos check-features`: compares recorded answers of serving with training rows."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rheos.cli.terminal import FAILED, report, say_lines
from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.protocol.feature_terms import status_column, time_column
from rheos.ml.feature_comparison import FeatureComparison, compare_features

_STATUS = status_column("")


def check_features(
    served: str, training: str, keys: str, tolerance: str, relative: float, as_json: bool
) -> int:
    """Print the comparison of two Parquet files or folders. Return the exit code: 0 if all answers are
    equal or tolerated, 1 if not, 2 if the files cannot be compared.

    Args:
        served: File or folder with the answers of `get_many`.
        training: File or folder with the training rows.
        keys: Names of the key columns, separated by commas.
        tolerance: Maximum age of a version that may differ, as a duration.
        relative: Relative difference of floating-point numbers that counts as equal.
        as_json: Whether to print JSON.
    """
    try:
        answers = _rows_of(served)
        found = compare_features(
            answers,
            _rows_of(training),
            name=_name_of(answers, served),
            keys=[name.strip() for name in keys.split(",")],
            tolerance=tolerance,
            relative=relative,
        )
    except RheosError as error:
        return report(error)
    if as_json:
        print(json.dumps(_json_of(found), default=str))
    else:
        say_lines(found)
    return 0 if found.ok else FAILED


def _rows_of(path: str) -> pa.Table:
    if not Path(path).exists():
        raise ConfigurationError(
            f"{path!r} does not exist", hint="pass a Parquet file, or a folder with Parquet files"
        )
    try:
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise ConfigurationError(
            f"{path!r} cannot be read as Parquet: {error}",
            hint="write the answers with pyarrow.parquet.write_table, and the training rows with "
            'rh.files.sink(..., format="parquet")',
        ) from None


def _name_of(answers: pa.Table, path: str) -> str:
    """Return the name of the features, from the column of their status."""
    names = [name.removesuffix(_STATUS) for name in answers.column_names if name.endswith(_STATUS)]
    names = [name for name in names if time_column(name) in answers.column_names]
    if len(names) != 1:
        raise ConfigurationError(
            f"{path!r} has the answers of {len(names)} features, and must have those of one",
            hint="write the tables of get_many() of one name, with the columns NAME_at and NAME_status",
        )
    [name] = names
    return str(name)


def _json_of(found: FeatureComparison) -> dict[str, object]:
    first = found.first
    return {
        "answers": found.answers,
        "equal": found.equal,
        "share": found.share,
        "lagging": found.lagging,
        "counts": {kind.value: count for kind, count in found.counts.items()},
        "first": None
        if first is None
        else {
            "kind": first.kind.value,
            "key": dict(first.key),
            "feature": first.feature,
            "served": first.served,
            "trained": first.trained,
            "moment": first.moment,
            "served_at": first.served_at,
            "trained_at": first.trained_at,
        },
    }
