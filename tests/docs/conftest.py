"""Shell in which the commands of a page run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rheos.ops.control.commands import JobClient
from rheos.ops.control.registry import Registry
from tests.docs.walks import WITHIN_S, Shell


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path / "home"))
    shell = Shell(tmp_path)
    yield shell
    for record in Registry().records():
        JobClient(record, WITHIN_S).cancel()
    shell.close()
