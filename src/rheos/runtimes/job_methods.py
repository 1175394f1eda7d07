"""The methods of handles and clients that send an operation to a running job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.unknown_names import HintedObject
from rheos.runtimes.job_operations import (
    GetCheckpoints,
    GetDecisions,
    GetEvents,
    GetHistory,
    ProfileSubtask,
    RescaleJob,
    StopJob,
    TakeSavepoint,
)
from rheos.runtimes.operation_contract import DriverOperation
from rheos.runtimes.stored_reads import GetFeatures, GetStates, GetViews, ReadKeyedState, ReadView

if TYPE_CHECKING:
    from rheos.core.metrics.event_log import JobEvent
    from rheos.core.metrics.history_files import HistoryView
    from rheos.core.protocol.stacks import StackProfile
    from rheos.runtimes.job import CheckpointInfo
    from rheos.runtimes.views.answers import FeatureRequest, ViewInfo, ViewPage, ViewRequest

T = TypeVar("T")


class JobReads(HintedObject):
    """The methods that read views, states and features. `rh.query` calls them."""

    def ask(self, operation: DriverOperation[T]) -> T:
        """Send a request to the job's driver.

        Args:
            operation: The request.

        Returns:
            The answer.

        Raises:
            RheosError: The error with which the driver refuses.
        """
        raise NotImplementedError

    def views(self) -> Sequence[ViewInfo]:
        """Return the materialized views of the job. `rh.query` reads their rows.

        Returns:
            Their names, columns and keys, and the newest checkpoint of their rows.

        Raises:
            CheckpointError: The job has no checkpoint yet.
        """
        return self.ask(GetViews())

    def view_page(self, asked: ViewRequest) -> ViewPage:
        """Return rows of a materialized view, as `rh.query` asks for them.

        Args:
            asked: The view, and a key or the page of a scan.

        Returns:
            The rows, all of one checkpoint.

        Raises:
            ConfigurationError: The view, a column, the key or the condition is unknown.
            CheckpointError: No checkpoint can be read, or the one of an earlier page is gone.
        """
        return self.ask(ReadView(**msgspec.structs.asdict(asked)))

    def features(self, asked: FeatureRequest) -> ViewPage:
        """Return published features of keys, as `rh.query` asks for them.

        Args:
            asked: The features and the keys.

        Returns:
            A row for each key, all of one checkpoint.

        Raises:
            ConfigurationError: The features are unknown, or the keys or the time do not fit.
            CheckpointError: No checkpoint can be read.
        """
        return self.ask(GetFeatures(**msgspec.structs.asdict(asked)))

    def states(self) -> Sequence[ViewInfo]:
        """Return the keyed states of the job that can be read. `rh.query` reads their rows.

        Returns:
            Their names, columns and keys, and the newest checkpoint of their rows.

        Raises:
            CheckpointError: The job has no checkpoint yet.
        """
        return self.ask(GetStates())

    def state_page(self, asked: ViewRequest) -> ViewPage:
        """Return rows of a keyed state, as `rh.query` asks for them.

        Args:
            asked: The state as `view`, and a key or the page of a scan.

        Returns:
            The rows, all of one checkpoint.

        Raises:
            ConfigurationError: The state, a column, the key or the condition is unknown.
            SchemaError: The state cannot be looked up by a key.
            CheckpointError: No checkpoint can be read, or the one of an earlier page is gone.
        """
        given = msgspec.structs.asdict(asked)
        return self.ask(ReadKeyedState(state=given.pop("view"), **given))


class JobMethods(JobReads):
    """All methods that send an operation to a running job."""

    _sections = ("handle",)

    def savepoint(self, directory: str | None = None) -> str:
        """Take a savepoint in a new folder. The job continues.

        Args:
            directory: the folder below which the savepoint's folder is made; by default below the job's
                checkpoint directory.

        Returns:
            The savepoint's folder.

        Raises:
            CheckpointError: the savepoint failed, or the job ended before. A failure does not stop it.
        """
        return self.ask(TakeSavepoint(directory=directory)).directory

    def stop(self, directory: str | None = None, *, drain: bool = False) -> str:
        """Take a savepoint and stop the job: everything up to it is committed, and nothing after it.

        Args:
            directory: as in `savepoint`.
            drain: whether the input ends first: windows fire, and the job finishes.

        Returns:
            The savepoint's folder.

        Raises:
            CheckpointError: the savepoint failed. The job continues.
        """
        return self.ask(StopJob(directory=directory, drain=drain)).directory

    def rescale(self, parallelism: int) -> None:
        """Let the running job continue with another parallelism, from a checkpoint that is taken for
        it.

        The driver remains the same. The call returns when the job runs with the new parallelism. A job
        that is killed and restarted with its old command keeps the new parallelism.

        Args:
            parallelism: The new number of subtasks.

        Raises:
            ConfigurationError: The job cannot run with it.
            CheckpointError: The job does not run now, or the checkpoint failed. The job continues as
                before.
        """
        self.ask(RescaleJob(parallelism=parallelism))

    def profile(self, subtask: int = 0, duration: Duration = "10s") -> StackProfile:
        """Sample the stack of a subtask every 10 ms while it works.

        Args:
            subtask: Number of the subtask, from 0.
            duration: Time for which it is sampled.

        Returns:
            The share of time in each part of the subtask's code.

        Raises:
            ConfigurationError: The subtask does not exist, or another profile is in progress.
            TransportError: The subtask ended meanwhile.
        """
        return self.ask(ProfileSubtask(subtask=subtask, seconds=duration_ms(duration) / 1000))

    def checkpoints(self) -> Sequence[CheckpointInfo]:
        """Return the retained checkpoints, the oldest first."""
        return self.ask(GetCheckpoints())

    def history(self) -> HistoryView:
        """Return past values of the metrics, including those of earlier drivers: fine for an hour,
        coarse for a week."""
        return self.ask(GetHistory())

    def events(self) -> Sequence[JobEvent]:
        """Return the event log of the job under all of its drivers, the newest first."""
        return self.ask(GetEvents())

    def decisions(self) -> Sequence[str]:
        """Return the protocol trace of this driver, for developers: the last thousand events with the
        actions that they caused, one line each, the oldest first."""
        return self.ask(GetDecisions())
