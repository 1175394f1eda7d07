"""Old names of a handle's methods work, and warn with the new ones."""

from __future__ import annotations

from typing import Any

import pytest

from rheos.core.metrics.model import MetricsReport
from rheos.runtimes.job import JobResult, JobStatus
from rheos.runtimes.job_handle import JobHandle


class Handle(JobHandle):
    """Job that answers each operation with its name."""

    def ask(self, operation: Any) -> Any:
        return [operation.name]

    def status(self) -> JobStatus:
        raise NotImplementedError

    def wait(self, timeout_s: float | None = None) -> JobResult:
        raise NotImplementedError

    def cancel(self) -> None:
        raise NotImplementedError

    def metrics(self) -> MetricsReport:
        return MetricsReport("job", "job", 7, 1, {}, {}, {}, [])


@pytest.mark.parametrize(("old", "new"), [("figures", "metrics"), ("story", "decisions")])
def test_an_old_name_warns_and_returns_the_same(old: str, new: str) -> None:
    handle = Handle()
    with pytest.warns(
        DeprecationWarning, match=rf"{old}\(\) has been renamed to JobHandle\.{new}\(\)"
    ) as warned:
        given = getattr(handle, old)()
    assert given == getattr(handle, new)()
    assert warned[0].filename == __file__
