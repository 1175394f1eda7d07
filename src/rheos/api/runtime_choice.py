"""Choice of a program's runtime, made once, from the setting and the program's sources."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from rheos.api.overrides import Overrides
from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.graph.nodes import Graph, Node
from rheos.core.graph.validate import ingesting_sources, loop_heads, unbounded_sources
from rheos.runtimes.job import JobConfig
from rheos.runtimes.job_handle import Runtime

_MODULES = {
    "continuous": ("rheos.runtimes.continuous.runtime", "ContinuousRuntime"),
    "batch": ("rheos.runtimes.batch.runtime", "BatchRuntime"),
}


@dataclass(frozen=True)
class RuntimeChoice:
    """The runtime of a program, and the reason."""

    name: str
    """"continuous", "batch" or "simulated"; for a runtime object, the name of its class."""
    reason: str = ""
    """Reason of the choice for people, if the setting is "auto": "as every source is bounded"."""
    given: Runtime | None = None
    """The runtime object that the user passed."""
    endless: Node | None = None
    """The first source that never ends."""

    @property
    def is_batch(self) -> bool:
        return self.name in ("batch", "BatchRuntime")

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})" if self.reason else self.name

    def make(self, config: JobConfig, overrides: Overrides) -> Runtime:
        """Return the runtime for a job. Raise ProgramError or ConfigurationError if the runtime does
        not support the program or the job's settings."""
        if self.given is not None:
            return self.given
        if self.is_batch and self.endless is not None:
            raise ProgramError(
                "the source never ends, but the batch runtime reads all of its input",
                hint='use runtime="continuous", or bound the source (a topic by end=, a folder by '
                "leaving out discover=)",
            ).located(site=self.endless.site, operator=self.endless.name)
        if overrides.until_now:
            self._check_until_now(config)
        if overrides.standby:
            self._check_standby(config)
        if overrides.succeeds is not None:
            self._check_succeeds(config)
        if config.scaling is not None and self.is_batch:
            raise ConfigurationError(
                "autoscaling is not available in a batch job, which ends with its input",
                hint='set a number; or use runtime="continuous"',
            )
        if config.from_savepoint is not None and self.is_batch:
            raise ConfigurationError(
                "a batch job starts without state, and this one has a savepoint to start from",
                hint='write runtime="continuous", or --runtime continuous; or leave out the savepoint',
            )
        if self.name == "simulated":
            from rheos.runtimes.simulated.runtime import SimulatedRuntime

            # It runs within one call, so it needs no control socket.
            return SimulatedRuntime(until_ms=overrides.until_ms)
        if overrides.until_ms is not None:
            raise ConfigurationError(
                f"--for is a length of virtual time; the {self.name} runtime uses real time",
                hint="add --runtime simulated; to end a running job, use `rheos stop --drain`",
            )
        if config.spark is None:
            from rheos.runtimes.spark import early_start

            early_start.start_for_job(self.name, config.master)
        from rheos.ops.control.controlled_jobs import ControlledRuntime

        module, runtime_class = _MODULES[self.name]
        return ControlledRuntime(self.name, getattr(importlib.import_module(module), runtime_class)())

    def _check_until_now(self, config: JobConfig) -> None:
        """Check that the runtime can stop after the input that exists now. Batch always does."""
        if self.name == "simulated":
            raise ConfigurationError(
                "--until now resumes from the last run, but a simulated job stores no checkpoints",
                hint="leave out --runtime simulated; or replace --until now by --for 10m",
            )
        if self.name == "continuous" and config.checkpoint_dir is None:
            raise ConfigurationError(
                "--until now resumes from the last run, but no checkpoint directory is configured",
                hint='set a checkpoint directory: rh.Environment(checkpoint_dir="..."), or '
                "--checkpoint-dir",
            )

    def _check_standby(self, config: JobConfig) -> None:
        if self.name != "continuous":
            raise ConfigurationError(
                f"--standby resumes a job whose driver was lost; a {self.name} job always starts anew",
                hint='write --runtime continuous, or runtime="continuous"; or leave out --standby',
            )
        if config.checkpoint_dir is None:
            raise ConfigurationError(
                "--standby resumes from the checkpoints of the lost driver, but no checkpoint "
                "directory is configured",
                hint="set a checkpoint directory that both drivers can access: "
                'rh.Environment(checkpoint_dir="..."), or --checkpoint-dir',
            )

    def _check_succeeds(self, config: JobConfig) -> None:
        if self.name != "continuous":
            raise ConfigurationError(
                f"a running job can be handed over only to a continuous job, and this is a {self.name} "
                "job",
                hint='write --runtime continuous, or runtime="continuous"',
            )
        if config.checkpoint_dir is None:
            raise ConfigurationError(
                "the job is handed over with a checkpoint, but no checkpoint directory is configured",
                hint="set the checkpoint directory of the running job: "
                'rh.Environment(checkpoint_dir="..."), or --checkpoint-dir',
            )


def choose_runtime(setting: str | Runtime, graph: Graph) -> RuntimeChoice:
    """Return the runtime for a program. `setting` is "auto", the name of a runtime, or a runtime."""
    endless = next(iter(unbounded_sources(graph)), None)
    if not isinstance(setting, str):
        return RuntimeChoice(type(setting).__name__, given=setting, endless=endless)
    if setting != "auto":
        return RuntimeChoice(setting, endless=endless)
    if endless is not None:
        reason = f"as {endless.name!r} never ends"
    elif loops := loop_heads(graph):
        reason = f"as {loops[0].name!r} is a loop"
    elif ingesting := ingesting_sources(graph):
        reason = f"as {ingesting[0].name!r} uses ingestion time"
    else:
        return RuntimeChoice("batch", "as every source is bounded")
    return RuntimeChoice("continuous", reason, endless=endless)
