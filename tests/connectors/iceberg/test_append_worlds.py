"""One job in simulated worlds whose table is that of Iceberg: snapshots expire, and properties are
removed. Each row in the log is in the table once.

docs/protocols/iceberg-sink.md has the invariants IC1 to IC7.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.connectors.delta import test_append_worlds as worlds
from tests.connectors.iceberg.simulated_snapshots import SimulatedSnapshots

WORLDS = 100


def run(monkeypatch: pytest.MonkeyPatch, **rules: Any) -> int:
    monkeypatch.setattr(worlds, "SimulatedTable", partial(SimulatedSnapshots, **rules))
    return worlds.run_all(WORLDS)


def test_every_row_in_the_log_is_in_the_table_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch) > 10 * WORLDS


@pytest.mark.parametrize("rule", [{"with_property": False}, {"in_one_commit": False}])
def test_the_worlds_detect_broken_rules(rule: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """IC2 and IC6."""
    with pytest.raises(AssertionError, match="seed"):
        run(monkeypatch, **rule)
