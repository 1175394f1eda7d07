"""Materialized views for Python programs: `rh.query`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rheos.core.site import located_at_call

if TYPE_CHECKING:
    from rheos.ops.views.job_views import JobViews
    from rheos.runtimes.job_handle import JobHandle


@located_at_call
def query(
    job: JobHandle | str,
    name: str | None = None,
    *,
    token: str | None = None,
    ca_certs: str | None = None,
) -> JobViews:
    """Open the materialized views and the keyed state of a job, to read their rows.

    ```python
    pages = rh.query("shop").view("pages")
    print(pages.get("home").table, pages.scan("n >= 10").table)
    far = rh.query("https://jobs.example:8484", "shop", token="...")
    ```

    Args:
        job: The handle of a job; or a string. It names a running job of this machine, or a job by
            its checkpoint directory, running or not, as JOB@DIRECTORY, or the folder of a savepoint.
            With `name`, it is the URL of `rheos dashboard` on any machine.
        name: Name, id or key of the job at that URL.
        token: Token of that server, with the role `read` or `operate`.
        ca_certs: File with the certificates against which that of the server is checked; by default
            those of the system.

    Returns:
        The views and states. Each read sees the newest checkpoint.

    Raises:
        ConfigurationError: No job and no savepoint has this name, or the URL or the token is unusable.
        CheckpointError: The savepoint or the job's log is damaged, or of a later version.
        TransportError: The directory cannot be read.
    """
    from rheos.ops.views.job_views import opened, opened_at

    if name is None and token is None and ca_certs is None:
        return opened(job)
    return opened_at(job, name, token, ca_certs)
