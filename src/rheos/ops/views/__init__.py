"""Materialized views for Python programs: `rh.query`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rheos.core.site import located_at_call

if TYPE_CHECKING:
    from rheos.ops.views.job_views import JobViews
    from rheos.runtimes.job_handle import JobHandle


@located_at_call
def query(job: JobHandle | str) -> JobViews:
    """Open the materialized views and the keyed state of a job, to read their rows.

    ```python
    pages = rh.query("shop").view("pages")
    print(pages.get("home").table, pages.scan("n >= 10").table)
    ```

    Args:
        job: The handle of a job; or a string, which names a running job of this machine, or a job by
            its checkpoint directory, running or not, as JOB@DIRECTORY, or the folder of a savepoint.

    Returns:
        The views and states. Each read sees the newest checkpoint.

    Raises:
        ConfigurationError: No job and no savepoint has this name.
        CheckpointError: The savepoint or the job's log is damaged, or of a later version.
        TransportError: The directory cannot be read.
    """
    from rheos.ops.views.job_views import opened

    return opened(job)
