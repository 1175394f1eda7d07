"""The views and the keyed states of one job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rheos.core.errors import ConfigurationError
from rheos.core.known_names import names_hint
from rheos.core.site import located_at_call
from rheos.ops.control.commands import JobClient
from rheos.ops.control.running_jobs import find_running
from rheos.ops.control.stored_views import stored_views
from rheos.ops.views.feature_reads import FeatureReads
from rheos.ops.views.rest_reads import RestReads, is_address
from rheos.ops.views.table_reads import JobTable, JobView, KeyedState, ViewSource, repeated
from rheos.ops.views.view_rows import ViewRows
from rheos.runtimes.job_handle import JobHandle
from rheos.runtimes.views.answers import ViewInfo


class JobViews:
    """The materialized views of a job, and the states of its operators."""

    def __init__(self, source: ViewSource) -> None:
        self._source = source

    @located_at_call
    def state(self, operator: str, state: str | None = None) -> KeyedState:
        """Return a keyed state of an operator.

        ```python
        print(rh.query(job).state("totals").get("ada").table)
        ```

        Args:
            operator: Its uid, or its name if only one operator has it.
            state: Name of the state, if the operator has several.

        Returns:
            The state. Each read sees the newest checkpoint. The first read raises an error if the state
                does not exist or cannot be looked up.
        """
        return KeyedState(self._source, operator if state is None else f"{operator}.{state}")

    def states(self) -> Sequence[ViewInfo]:
        """Return the keyed states that can be read, with their columns and keys. Raise CheckpointError
        if the job has no checkpoint yet."""
        return self._source.states()

    def features(self, name: str) -> FeatureReads:
        """Return published features, to look them up by key.

        ```python
        rows = rh.query("shop").features("user_spend").get_many(["ada", "bo"]).table
        ```

        Args:
            name: Their name.

        Returns:
            The features. Each look-up sees the newest checkpoint.
        """
        return FeatureReads(self._source, name)

    def views(self) -> Sequence[ViewInfo]:
        """Return the views with their columns and keys. Raise CheckpointError if the job has no
        checkpoint yet."""
        return self._source.views()

    @located_at_call
    def view(self, name: str) -> JobView:
        """Return a view.

        Args:
            name: Its name; case does not matter, as in SQL.

        Returns:
            The view.

        Raises:
            ConfigurationError: The job has no such view.
            CheckpointError: The job has no checkpoint yet.
        """
        return self._known_view(name, self._views_by_name())

    @located_at_call
    def scans(self, *names: str) -> dict[str, ViewRows]:
        """Read several views and states at the same checkpoint.

        ```python
        both = rh.query(job).scans("pages", "users")
        ```

        Args:
            names: The views and states. A state has its name from `states`.

        Returns:
            All rows of each, by the names as passed.

        Raises:
            ConfigurationError: The job has no such view or state, or one has too many rows.
            CheckpointError: The job has no checkpoint yet, or newer checkpoints replace each one before
                all are read.
        """

        def read() -> dict[str, ViewRows]:
            found: dict[str, ViewRows] = {}
            number = None
            for name in names:
                found[name] = self._table(name).scan(checkpoint=number)
                number = found[name].checkpoint
            return found

        return repeated(read)

    @located_at_call
    def sql(self, query: str, *, dialect: str | None = None) -> ViewRows:
        """Return the rows of a query over views and states, all at the same checkpoint.

        ```python
        rows = rh.query(job).sql("SELECT p.n, s.average FROM pages p JOIN slowest s USING (page)")
        ```

        The query runs in this process, over copies of the tables that it names. Each has up to a
        million rows. A state has its name from `states`.

        Args:
            query: The query, as `rheos sql --job` runs it.
            dialect: System whose meaning the query has: "spark", "flink" or "postgres".

        Returns:
            The rows of the result, with the checkpoint of the tables.

        Raises:
            ProgramError: The query is invalid or not supported, at its line and column.
            ConfigurationError: The query names no view and no state, one has too many rows, or the
                extra `rheos[sql]` is not installed.
            CheckpointError: The job has no checkpoint yet, or newer checkpoints replace each one before
                all tables are read.
        """
        import rheos.sql.session  # noqa: F401  # It raises the error for a missing extra.
        from rheos.ops.views.view_queries import query_rows

        return query_rows(self, query, dialect)

    def _table(self, name: str) -> JobTable:
        """Return a view or a state. Raise ConfigurationError if the job has neither."""
        views = self._views_by_name()
        if name.casefold() not in views and name in {info.name for info in self.states()}:
            return KeyedState(self._source, name)
        return self._known_view(name, views)

    def _views_by_name(self) -> dict[str, ViewInfo]:
        """Return the views by their names in lower case."""
        return {info.name.casefold(): info for info in self.views()}

    def _known_view(self, name: str, views: Mapping[str, ViewInfo]) -> JobView:
        """Return one of the views. Raise ConfigurationError if it is not among them."""
        info = views.get(name.casefold())
        if info is None:
            names = [known.name for known in views.values()]
            raise ConfigurationError(
                f"the job has no view {name!r}", hint=names_hint(name, names, "the views are")
            )
        return JobView(self._source, info)


def opened(job: JobHandle | str) -> JobViews:
    """Return the views and states of a job; see `rh.query`."""
    if isinstance(job, JobHandle):
        return JobViews(job)
    if is_address(job):
        return opened_at(job, None, None, None)
    try:
        record = find_running(job)
    except ConfigurationError:
        stored = stored_views(job)
        if stored is None:
            raise
        return JobViews(stored)
    return JobViews(JobClient(record))


def opened_at(
    url: JobHandle | str, name: str | None, token: str | None, ca_certs: str | None
) -> JobViews:
    """Return the views and states of a job that a server offers over REST; see `rh.query`."""
    if not isinstance(url, str) or not is_address(url) or not name or not token:
        raise ConfigurationError(
            "a read over REST needs a URL, the name of a job, and a token",
            hint='write rh.query("https://jobs.example:8484", "shop", token=token)',
        )
    return JobViews(RestReads(url, name, token, ca_certs))
