"""Windows of the query and of the job have one kind."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError
from rheos.core.graph.windows import Window
from rheos.ops.migration.operator_forms import MatchedOperator, form_of
from rheos.ops.migration.spark_checkpoint import SparkCheckpoint
from rheos.ops.migration.spark_state import SESSION_WINDOW, SESSIONS, WINDOW, OperatorRows
from rheos.ops.savepoints.bootstrap import NewSavepoint
from tests.ops.migration.queries import job


def add_windows(tmp_path: Path, kind: str, of_query: str, of_job: Window) -> None:
    """Try to move windows of a query to windows of a job."""
    plan = job(tmp_path, lambda rows: rows.key_by("item").window(of_job).aggregate(n=rh.agg.count()))
    rows = OperatorRows(MagicMock(), ["item"], of_query, [("count", "buffer 0")])
    form = form_of(kind, rows)
    windows = form.counterpart(rows, plan.plan().operators())
    checkpoint = SparkCheckpoint("/kept", 0, [], 0, 0, has_state=True)
    states = windows.spec.states(windows.ports)
    matched = MatchedOperator(windows, windows.spec, states, rows, checkpoint, 128)
    form.add(NewSavepoint(None, plan.plan()), matched)


@pytest.mark.parametrize(
    ("kind", "of_query", "of_job"),
    [
        (SESSIONS, SESSION_WINDOW, rh.Tumbling("10s")),
        ("stateStoreSave", WINDOW, rh.Session("10s")),
        ("stateStoreSave", WINDOW, rh.Cumulating("1h", step="10m")),
    ],
    ids=str,
)
def test_windows_of_another_kind_are_refused(
    tmp_path: Path, kind: str, of_query: str, of_job: Window
) -> None:
    with pytest.raises(ConfigurationError, match=rf"the query has {of_query}\(...\), and the job"):
        add_windows(tmp_path, kind, of_query, of_job)


def test_windows_of_processing_time_are_refused(tmp_path: Path) -> None:
    window = rh.Tumbling("10s", time="processing_time")
    with pytest.raises(ConfigurationError, match="those of the job by the clock"):
        add_windows(tmp_path, "stateStoreSave", WINDOW, window)
