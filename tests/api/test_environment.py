"""Running a program: settings, runtimes, and options of the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.api import overrides
from rheos.api.overrides import Overrides, ProgramCapture
from rheos.api.partial_settings import PartialSettings, from_command
from rheos.core.checkpoint.config import CheckpointConfig, FixedDelay, NoRestart
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.state_config import Backend, StateConfig
from rheos.core.task.config import Guarantee, TaskConfig
from rheos.runtimes.job import JobConfig, JobResult, JobState, JobStatus
from rheos.runtimes.job_handle import JobHandle
from tests.api.programs import events, refused


class Done:
    """Job that has ended."""

    def __init__(self, config: JobConfig, name: str) -> None:
        self._status = JobStatus(
            config.job, name, JobState.FINISHED, 1, 0.0, 0.0, None, 0, 0, None, 0, 0.0, 0.0
        )
        self.interrupted = False
        self.cancelled = False

    def status(self) -> JobStatus:
        return self._status

    def wait(self, timeout_s: float | None = None) -> JobResult:
        if self.interrupted:
            raise KeyboardInterrupt
        return JobResult(self._status)

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Recorder:
    """Runtime that records its arguments."""

    plans: list[PhysicalPlan] = field(default_factory=list)
    configs: list[JobConfig] = field(default_factory=list)
    listeners: list[Any] = field(default_factory=list)
    handles: list[Done] = field(default_factory=list)
    interrupted: bool = False

    def submit(
        self,
        plan: PhysicalPlan,
        config: JobConfig,
        listener: Callable[[JobStatus], None] | None = None,
    ) -> Done:
        self.plans.append(plan)
        self.configs.append(config)
        self.listeners.append(listener)
        self.handles.append(Done(config, plan.name))
        self.handles[-1].interrupted = self.interrupted
        return self.handles[-1]


def command(**settings: Any) -> tuple[PartialSettings]:
    return (from_command(settings),)


def endless() -> rh.generator:  # type: ignore[valid-type]
    return rh.generator(lambda block: {"n": block.index()})


def run(**settings: Any) -> tuple[PhysicalPlan, JobConfig]:
    recorder = Recorder()
    env = rh.Environment(runtime=recorder, **settings)
    events(env).print()
    env.execute("Visitors per country!")
    return recorder.plans[0], recorder.configs[0]


def test_settings_reach_the_runtime(tmp_path: object) -> None:
    plan, config = run(
        parallelism=3,
        max_parallelism=16,
        master="local[5]",
        checkpoint_dir=tmp_path,
        checkpoint_interval="2s",
        checkpoint_timeout="1m",
        restart=rh.restart.fixed_delay(3, delay="2s"),
        batch_rows=100,
        buffer_timeout="5ms",
        credits=2,
        encrypt=True,
    )
    assert (plan.parallelism, plan.max_parallelism) == (3, 16)
    assert plan.name == "Visitors per country!"
    assert config.master == "local[5]"
    assert config.checkpoint_dir == str(tmp_path)
    assert config.checkpoint.interval_ms == 2000
    assert config.checkpoint.timeout_ms == 60_000
    assert config.checkpoint.restart == FixedDelay(3, 2000)
    assert config.task.batch_rows == 100
    assert config.task.buffer_timeout_us == 5000
    assert config.task.credits == 2
    assert config.encrypt is True


def test_checkpoints_state_and_savepoints_reach_the_runtime(tmp_path: Path) -> None:
    _, config = run(
        parallelism=3,
        checkpoints=rh.Checkpoints(
            unaligned_after="5s", retain=5, min_pause="1s", tolerable_failures=0
        ),
        min_parallelism=2,
        state=rh.StateConfig(rh.StateBackend.ROCKSDB, memory_bytes=1 << 24, directory="/fast"),
        from_savepoint=tmp_path / "savepoint",
        allow_dropped=True,
    )
    taken = config.checkpoint
    assert (taken.retain, taken.min_pause_ms, taken.tolerable_failures) == (5, 1000, 0)
    assert config.task.unaligned_after_us == 5_000_000
    assert config.task.guarantee is Guarantee.EXACTLY_ONCE
    assert config.min_parallelism == 2
    assert config.state == StateConfig(Backend.ROCKSDB, 1 << 24, "/fast")
    assert config.from_savepoint == str(tmp_path / "savepoint")
    assert config.allow_dropped


def test_rarely_used_settings_default_to_those_of_the_contracts() -> None:
    _, config = run(parallelism=2)
    assert config.checkpoint == CheckpointConfig()
    assert config.task == TaskConfig()
    assert config.state == StateConfig()
    assert (config.from_savepoint, config.allow_dropped, config.min_parallelism) == (None, False, None)
    assert run(checkpoints=rh.Checkpoints())[1].checkpoint == CheckpointConfig()


def test_at_least_once_with_several_checkpoints_in_flight() -> None:
    _, config = run(checkpoints=rh.Checkpoints(max_concurrent=3, at_least_once=True))
    assert config.task.guarantee is Guarantee.AT_LEAST_ONCE
    assert config.task.unaligned_after_us is None
    assert config.checkpoint.max_concurrent == 3


def test_a_savepoint_may_be_at_a_url_and_barriers_unaligned_from_the_start() -> None:
    checkpoints = rh.Checkpoints(unaligned_after="0s", max_concurrent=2)
    _, config = run(from_savepoint="s3://bucket/s", state="rocksdb", checkpoints=checkpoints)
    assert config.from_savepoint == "s3://bucket/s"
    assert config.state.backend is Backend.ROCKSDB
    assert config.task.unaligned_after_us == 0


@pytest.mark.parametrize(("said", "meant"), [(0, 0), ("0ms", 0), (-1, None), ("10ms", 10_000)])
def test_a_buffer_timeout_is_a_duration_or_a_special_value(said: Any, meant: int | None) -> None:
    assert run(buffer_timeout=said)[1].task.buffer_timeout_us == meant


def test_batches_are_bounded_if_a_latency_objective_is_set() -> None:
    _, config = run(latency="20ms", batch_rows=512)
    assert (config.task.latency_us, config.task.batch_rows) == (20_000, 512)


def test_without_an_interval_only_the_final_checkpoint_is_taken() -> None:
    assert run(checkpoint_interval=None)[1].checkpoint.interval_ms is None


def test_a_relative_folder_is_resolved_against_the_programs_folder() -> None:
    assert run(checkpoint_dir="state")[1].checkpoint_dir == os.path.abspath("state")
    assert run(checkpoint_dir="s3://bucket/state")[1].checkpoint_dir == "s3://bucket/state"


def test_a_job_with_a_kept_log_has_the_same_id_at_each_start(tmp_path: object) -> None:
    kept = {run(checkpoint_dir=tmp_path)[1].job for _ in range(2)}
    assert kept == {"visitors-per-country"}
    passing = {run()[1].job for _ in range(2)}
    assert len(passing) == 2
    assert all(job.startswith("visitors-per-country-") for job in passing)


@pytest.mark.parametrize(
    ("settings", "error", "what"),
    [
        ({"parallelism": 0}, rh.ProgramError, "parallelism must be a whole number of at least 1"),
        ({"parallelism": 200}, rh.ProgramError, "greater than max_parallelism 128"),
        ({"max_parallelism": 1 << 20}, rh.ProgramError, "at most 32768"),
        ({"runtime": "spark"}, rh.ConfigurationError, "unknown runtime 'spark'"),
        (
            {"checkpoint_interval": "0s"},
            rh.ConfigurationError,
            "checkpoint_interval must be greater than",
        ),
        ({"checkpoint_interval": "often"}, rh.ProgramError, "is not a duration"),
        ({"batch_rows": 0}, rh.ConfigurationError, "batch_rows must be a whole number"),
        ({"buffer_timeout": 5}, rh.ConfigurationError, "buffer_timeout=5 is not known"),
        ({"latency": "0s"}, rh.ConfigurationError, "latency must be greater than 0"),
        (
            {"latency": "20ms", "buffer_timeout": 0},
            rh.ConfigurationError,
            "chooses the buffer timeout itself, but buffer_timeout=0 is also set",
        ),
        ({"credits": 0}, rh.ConfigurationError, "credits must be"),
        ({"checkpoints": "2"}, rh.ConfigurationError, "checkpoints='2' is not known"),
        ({"checkpoints": rh.Checkpoints(retain=0)}, rh.ConfigurationError, "retain must be"),
        (
            {"checkpoints": rh.Checkpoints(max_concurrent=0)},
            rh.ConfigurationError,
            "max_concurrent must be",
        ),
        (
            {"checkpoints": rh.Checkpoints(tolerable_failures=-1)},
            rh.ConfigurationError,
            "tolerable_failures must be a whole number of at least 0",
        ),
        ({"checkpoints": rh.Checkpoints(min_pause="x")}, rh.ProgramError, "'x' is not a duration"),
        (
            {"checkpoints": rh.Checkpoints(min_pause=timedelta(-1))},
            rh.ConfigurationError,
            "min_pause must not be negative, but is",
        ),
        (
            {"checkpoints": rh.Checkpoints(unaligned_after="1s", at_least_once=True)},
            rh.ConfigurationError,
            "at-least-once checkpoints have no aligned barriers, so unaligned_after has no effect",
        ),
        (
            {"checkpoints": rh.Checkpoints(min_pause="1s", max_concurrent=2)},
            rh.ConfigurationError,
            "with 2 concurrent checkpoints there is no pause between two checkpoints",
        ),
        ({"min_parallelism": 0}, rh.ConfigurationError, "min_parallelism must be"),
        (
            {"parallelism": 2, "min_parallelism": 3},
            rh.ConfigurationError,
            "min_parallelism 3 is greater than the parallelism, which is 2",
        ),
        ({"state": "redis"}, rh.ConfigurationError, "unknown state backend 'redis'"),
        (
            {"state": rh.StateConfig(memory_bytes=100)},
            rh.ConfigurationError,
            "the memory of the state must be a whole number of at least 1048576",
        ),
    ],
    ids=str,
)
def test_wrong_settings_are_refused_at_their_line(
    settings: dict[str, Any], error: type[rh.RheosError], what: str
) -> None:
    refused(lambda: rh.Environment(**settings), error, what, "", at="rh.Environment")


def test_the_default_parallelism_is_that_of_the_machine() -> None:
    assert 1 <= rh.Environment().parallelism <= 4


def test_bounded_sources_run_in_batches_and_others_continuously() -> None:
    env = rh.Environment()
    events(env).print()
    assert "runtime: batch (as every source is bounded)" in env.explain("plan")
    env.from_source(endless(), name="numbers").print()
    assert "runtime: continuous (as 'numbers' never ends)" in env.explain("plan")


def test_an_endless_source_is_refused_by_the_batch_runtime_at_its_own_line() -> None:
    env = rh.Environment(runtime="batch")
    env.from_source(endless(), name="numbers").print()
    refused(lambda: env.execute(), rh.ProgramError, "never ends", "continuous", at="env.from_source")


@pytest.mark.parametrize("runtime", ["auto", "batch"])
def test_a_batch_job_with_a_savepoint_is_refused(runtime: str) -> None:
    env = rh.Environment(runtime=runtime, from_savepoint="savepoints/totals")
    events(env).print()
    with pytest.raises(rh.ConfigurationError, match=r"starts without state.*\n.*--runtime continuous"):
        env.execute()


def test_an_unused_source_does_not_choose_the_runtime() -> None:
    env = rh.Environment()
    env.from_source(endless(), name="numbers")
    events(env).print()
    assert "runtime: batch" in env.explain("plan")


def test_a_program_is_not_executed_twice() -> None:
    recorder = Recorder()
    env = rh.Environment(runtime=recorder)
    rows = events(env)
    rows.collect("first")
    env.execute("one")
    rows.filter("value > 0").collect("second")
    env.execute("two")
    names = [[operator.name for operator in plan.operators()] for plan in recorder.plans]
    assert names == [["events", "first"], ["events", "filter", "second"]]
    refused(lambda: env.execute("three"), rh.ProgramError, "no sinks", "")


def test_an_interrupt_cancels_the_job() -> None:
    recorder = Recorder(interrupted=True)
    env = rh.Environment(runtime=recorder)
    events(env).print()
    with pytest.raises(KeyboardInterrupt):
        env.execute()
    assert recorder.handles[0].cancelled


def test_a_command_overrides_the_program() -> None:
    heard: list[str] = []
    started: list[JobHandle] = []
    said = Overrides(
        command(
            parallelism=4,
            master="local[8]",
            checkpoint_dir="/elsewhere",
            checkpoint_interval="1s",
        ),
        listener=lambda name: lambda status: heard.append(name),
        submitted=started.append,
    )
    recorder = Recorder()
    with overrides.applied(said):
        env = rh.Environment(2, runtime=recorder, master="local[2]", restart=rh.restart.none())
        events(env).print()
        env.execute("job")
    (config,) = recorder.configs
    assert recorder.plans[0].parallelism == 4
    assert config.master == "local[8]"
    assert config.checkpoint_dir == "/elsewhere"
    assert config.checkpoint.interval_ms == 1000
    assert config.checkpoint.restart == NoRestart()
    assert started == recorder.handles
    recorder.listeners[0](recorder.handles[0].status())
    assert heard == ["job"]
    assert overrides.current() == Overrides()


def test_a_program_can_be_captured_without_running() -> None:
    recorder = Recorder()
    env = rh.Environment(runtime=recorder)
    events(env).print()
    with overrides.applied(Overrides(capture=True)), pytest.raises(ProgramCapture) as caught:
        env.execute("visitors")
    assert not recorder.plans
    assert caught.value.job_name == "visitors"
    assert "events" in caught.value.environment.explain()


def test_a_program_runs() -> None:
    env = rh.Environment(2, runtime="simulated")
    rows = events(env).filter("value > 0").select("user", "value")
    rows.collect("rows")
    rows.union(rows).key_by("user").running(n=rh.agg.count()).collect("counts")
    result = env.execute("small")
    assert result.collected["rows"].to_pylist() == [
        {"user": "ann", "value": 1},
        {"user": "ann", "value": 2},
    ]
    assert sorted(result.collected["counts"].column("n").to_pylist()) == [1, 2, 3, 4]


def test_a_handle_and_a_status_show_themselves_in_one_line() -> None:
    env = rh.Environment(1, runtime="simulated")
    events(env).collect("rows")
    handle = env.execute_async("small")
    assert repr(handle).startswith("<Job 'small' starting for 0.0 s, ")
    handle.wait()
    assert re.fullmatch(
        r"<JobStatus 'small' finished for \d+\.\d s, [\d,]+ records/s, checkpoints \d, restarts 0>",
        repr(handle.status()),
    )
