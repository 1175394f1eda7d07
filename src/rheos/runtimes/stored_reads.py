"""The operations that read views, keyed state and features from the checkpoints of a job.

A running job and a stored one answer them in the same way. The table of `rheos.runtimes.job_operations`
contains them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from rheos.core.errors import ConfigurationError
from rheos.runtimes.operation_contract import (
    MAX_READ_BYTES,
    Argument,
    DrivenJob,
    DriverOperation,
    Role,
)

if TYPE_CHECKING:
    from rheos.runtimes.views.answers import ViewInfo, ViewPage
    from rheos.runtimes.views.reader import ViewReader

T = TypeVar("T")


class StoredRead(DriverOperation[T], frozen=True):
    """Base of the reads from checkpoints. A running job and a stored one answer in the same way."""

    def carry_out(self, job: DrivenJob) -> T:
        return self.of_stored(job.master.views)

    def of_stored(self, views: ViewReader) -> T:
        raise NotImplementedError

    def refusal(self) -> ConfigurationError:
        return _no_views()


class _ReadRows(StoredRead["ViewPage"], frozen=True):
    """Base of the reads of rows."""

    role = Role.READ

    def text(self, answer: ViewPage) -> str:
        return answer.text()


class GetViews(StoredRead["Sequence[ViewInfo]"], frozen=True):
    """List the materialized views of a job. Each has its columns, its key, and the newest checkpoint of
    its rows."""

    name = "views"

    def of_stored(self, views: ViewReader) -> Sequence[ViewInfo]:
        return views.views()


_KEY = "Key of the row: its value, or JSON if the key has several columns: '[\"home\", 7]'."
_WHERE = "Condition: comparisons with constants, joined by AND, such as 'n >= 10'."
_CHECKPOINT = Argument("Number of the checkpoint to read.", default="the newest")


class _ReadTable(_ReadRows, frozen=True, kw_only=True):
    """Base of the reads of a table of a checkpoint."""

    key: Annotated[str, Argument(_KEY, max_chars=MAX_READ_BYTES)] | None = None
    where: Annotated[str, Argument(_WHERE, max_chars=MAX_READ_BYTES)] | None = None
    columns: Annotated[str, Argument("Columns, separated by commas.", default="all")] | None = None
    limit: Annotated[int, Argument("Maximum number of rows.", bounds={"ge": 1, "le": 10_000})] = 1000
    after: Annotated[str, Argument("Token of the previous page.")] | None = None
    checkpoint: Annotated[int, _CHECKPOINT] | None = None
    arrow: Annotated[bool, Argument("Return the rows as an Arrow IPC stream in `data`, in Base64.")] = (
        False
    )


class ReadView(_ReadTable, frozen=True, kw_only=True):
    """Read rows of a materialized view. All are of one checkpoint. With --key, it reads one row.
    Otherwise it reads a page of all rows, with a token for the next page."""

    name = "view"
    view: Annotated[str, Argument("Name of the view.", positional="VIEW")]

    def of_stored(self, views: ViewReader) -> ViewPage:
        from rheos.runtimes.views.answers import ViewRequest

        return views.view_page(ViewRequest(**msgspec.structs.asdict(self)))


class GetStates(StoredRead["Sequence[ViewInfo]"], frozen=True):
    """List the keyed states of a job that can be read. Each has its columns, its key, and the newest
    checkpoint of its rows."""

    name = "states"

    def of_stored(self, views: ViewReader) -> Sequence[ViewInfo]:
        return views.states()

    def refusal(self) -> ConfigurationError:
        return _no_state()


class ReadKeyedState(_ReadTable, frozen=True, kw_only=True):
    """Read keyed state of an operator. All rows are of one checkpoint. With --key, it reads the rows of
    one key. Otherwise it reads a page of all rows, with a token for the next page."""

    name = "state"
    state: Annotated[str, Argument("Operator, or OPERATOR.STATE.", positional="STATE")]

    def of_stored(self, views: ViewReader) -> ViewPage:
        from rheos.runtimes.views.answers import ViewRequest

        asked = msgspec.structs.asdict(self)
        return views.state_page(ViewRequest(view=asked.pop("state"), **asked))

    def refusal(self) -> ConfigurationError:
        return _no_state()


_KEYS = 'JSON array of keys: \'["ada", "bo"]\'; with several key columns \'[["ada", 7]]\'.'
_AT = Argument("Time of the look-up, by which the age of values is measured.", default="now")


class GetFeatures(_ReadRows, frozen=True):
    """Look up published features by key. Each key has a row, with the defaults for missing and for
    stale values. All are of one checkpoint."""

    name = "features"
    features: Annotated[str, Argument("Name of the features.", positional="FEATURES")]
    keys: Annotated[str, Argument(_KEYS, max_chars=MAX_READ_BYTES)]
    at: Annotated[str, _AT] | None = None
    arrow: Annotated[bool, Argument("Return the rows as an Arrow IPC stream in `data`, in Base64.")] = (
        False
    )

    def of_stored(self, views: ViewReader) -> ViewPage:
        from rheos.runtimes.views.answers import FeatureRequest

        return views.features(FeatureRequest(**msgspec.structs.asdict(self)))


def _no_views() -> ConfigurationError:
    return ConfigurationError(
        "the views of this job cannot be read: a batch job stores no state",
        hint='run it with runtime="continuous", or write the rows by INSERT INTO',
    )


def _no_state() -> ConfigurationError:
    return ConfigurationError(
        "the state of this job cannot be read: a batch job stores none",
        hint='run it with runtime="continuous"',
    )
