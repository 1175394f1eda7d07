"""The kind of stage in which a job's slots run as tasks, and the number of slots available."""

from __future__ import annotations

from typing import Any

import pytest

from rheos.core.errors import ConfigurationError
from rheos.runtimes.continuous import resources
from rheos.runtimes.continuous.resources import StageKind, available_slots, check_slots, chosen_stage

DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}


class Context:
    """Stand-in for a Spark context, with the parts that slots need. `conf` has the application's
    settings."""

    def __init__(self, master: str, settings: dict[str, str]) -> None:
        self.master = master
        self._settings = settings

    def getConf(self) -> dict[str, str]:  # noqa: N802 - PySpark's name
        return self._settings


@pytest.fixture(autouse=True)
def no_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_slots", lambda context: 0)


def context(master: str = "yarn", **more: str) -> Any:
    settings = {f"spark.{name.replace('_', '.')}": value for name, value in more.items()}
    return Context(master, DYNAMIC | settings)


@pytest.mark.parametrize(
    ("master", "enabled", "kind"),
    [
        ("yarn", "true", StageKind.ORDINARY),
        ("spark://host:7077", "TRUE", StageKind.ORDINARY),
        ("local-cluster[2,1,512]", "true", StageKind.ORDINARY),
        ("yarn", "false", StageKind.BARRIER),
        ("local", "true", StageKind.BARRIER),
        ("local[*]", "true", StageKind.BARRIER),
    ],
)
def test_the_stage_is_ordinary_if_spark_refuses_barriers(
    master: str, enabled: str, kind: StageKind
) -> None:
    chosen: Any = Context(master, {"spark.dynamicAllocation.enabled": enabled})
    assert chosen_stage(chosen).kind is kind
    assert str(chosen_stage(chosen)).startswith(f"{kind.value} stage: ")


def test_executors_may_start_later() -> None:
    check_slots(context(), 8, 1)
    assert available_slots(context(), 9) == 9


def test_too_few_maximum_executors_are_refused_at_once() -> None:
    few = context(dynamicAllocation_maxExecutors="3", executor_cores="4", task_cpus="2")
    assert available_slots(few, 100) == 6
    check_slots(few, 6)
    with pytest.raises(ConfigurationError, match="needs 7 slots") as raised:
        check_slots(few, 7)
    hint = "lower the parallelism to 6, or raise spark.dynamicAllocation.maxExecutors"
    assert raised.value.hint == hint


def test_an_unlimited_maximum_of_executors_is_no_limit() -> None:
    unlimited = context(dynamicAllocation_maxExecutors=str(2**31 - 1), executor_cores="4")
    assert available_slots(unlimited, 5) == 5


FIXED = {"dynamicAllocation_enabled": "false", "executor_instances": "3", "executor_cores": "2"}


@pytest.mark.parametrize("master", ["yarn", "k8s://https://10.0.0.1"])
def test_too_few_requested_executors_are_refused_at_once(master: str) -> None:
    with pytest.raises(ConfigurationError, match=r"needs 7 slots, but the master .* has 6") as raised:
        check_slots(context(master, **FIXED), 7)
    assert "raise spark.executor.instances or spark.executor.cores" in (raised.value.hint or "")


@pytest.mark.parametrize(
    ("master", "within_s"), [("yarn", 600), ("k8s://https://10.0.0.1", 600), ("spark://host:7077", 60)]
)
def test_requested_executors_have_the_time_that_a_cluster_needs_to_add_machines(
    master: str, within_s: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = [0.0]
    monkeypatch.setattr(resources.time, "monotonic", lambda: now_s[0])
    monkeypatch.setattr(resources.time, "sleep", lambda for_s: now_s.__setitem__(0, now_s[0] + 1))
    monkeypatch.setattr(resources, "_slots", lambda context: 6 if now_s[0] >= within_s - 1 else 1)
    check_slots(context(master, **FIXED), 6)
    assert now_s[0] == within_s - 1
    waits = f"the job waits up to {within_s} s for executors: it needs 6 slots, and 1 have registered"
    assert [record.getMessage() for record in caplog.records] == [waits]
    monkeypatch.setattr(resources, "_slots", lambda context: 1)
    with pytest.raises(ConfigurationError, match="has 1"):
        check_slots(context(master, **FIXED), 6)
