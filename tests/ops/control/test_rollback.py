"""`rheos rollback` requests the handover only when the kept program has restored the state (UP9)."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rheos.core.checkpoint.handover_situation import Situation
from rheos.core.errors import CheckpointError, ConfigurationError, RheosError
from rheos.ops.control import handover
from rheos.ops.control.handover_turn import take_turn
from rheos.runtimes.job_operations import (
    GetSuccession,
    HandoverRequest,
    SuccessionAnswer,
    TakeJob,
)

RUNNING, KEPT = SimpleNamespace(job="orders", key="key"), SimpleNamespace(process="process 1")


class Drivers:
    """Both drivers, of which the kept one restores a checkpoint while it answers."""

    def __init__(self, *, misfit: RheosError | None = None) -> None:
        self.requests: list[Any] = []
        self._misfit = misfit

    def client(self, record: Any, timeout_s: float = 30.0) -> Any:
        return SimpleNamespace(ask=self._answer)

    def _answer(self, operation: Any) -> Any:
        self.requests.append(operation)
        if self._misfit is not None:
            raise self._misfit
        is_prepared = self.requests.count(operation) == 3
        return SuccessionAnswer("v1", Situation.CONFIRMED, True, is_prepared)


def roll_back(drivers: Drivers, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(handover, "_LOOK_S", 0)
    monkeypatch.setattr(handover, "find_running", lambda wanted: RUNNING)
    monkeypatch.setattr(handover, "kept_driver", lambda key, running: KEPT)
    monkeypatch.setattr(handover, "JobClient", drivers.client)
    return handover.roll_back("orders", keep_s=5)


def test_the_job_continues_until_the_kept_program_is_ready(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    drivers = Drivers()
    assert roll_back(drivers, monkeypatch) == "process 1"
    waits = [GetSuccession()] * 3
    assert drivers.requests == [*waits, HandoverRequest(successor="v1", keep_s=5), TakeJob()]
    assert capsys.readouterr().err.count("waiting until the earlier program") == 1


def test_a_kept_program_that_does_not_fit_is_not_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    drivers = Drivers(misfit=CheckpointError("it has other states"))
    with pytest.raises(CheckpointError, match=r"was not handed back: .* it has other states"):
        roll_back(drivers, monkeypatch)
    assert drivers.requests == [GetSuccession()]


def test_a_rollback_waits_for_the_end_of_an_upgrade(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RHEOS_HOME", str(tmp_path))
    monkeypatch.setattr(handover, "_TURN_WITHIN_S", 0)
    turn = take_turn(RUNNING, "rheos upgrade orders job_v2.py")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="handed over already"):
        roll_back(Drivers(), monkeypatch)
    monkeypatch.setattr(handover, "_TURN_WITHIN_S", 60)
    monkeypatch.setattr(
        handover, "time", SimpleNamespace(monotonic=lambda: 0, sleep=lambda s: turn.release())
    )
    assert roll_back(Drivers(), monkeypatch) == "process 1"
