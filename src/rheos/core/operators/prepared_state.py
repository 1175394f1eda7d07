"""The state of an operator that is restored before the attempt of the operator begins.

A driver that waits for a running job restores its newest checkpoint ahead of time, and then the parts
that later checkpoints add. When the attempt begins, the new operator continues with this state, and
reads only what is still missing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable

import pyarrow as pa


class PreparedState(ABC):
    """The state of one operator in one subtask. Only the operator for which it was made may use it."""

    @property
    @abstractmethod
    def names(self) -> Collection[str]:
        """Return the names of the operator's states that it contains. Others are restored later."""

    @abstractmethod
    def apply(self, state: str, tables: Iterable[pa.Table]) -> None:
        """Apply tables of one of these states, in order. They follow those of earlier calls.

        Raises:
            UnrestorableError: a table does not fit the operator.
        """

    def forget(self, state: str) -> bool:
        """Forget one of these states, so that its tables can be applied from the first one.

        Returns:
            Whether that is possible. Otherwise the caller must not use the operator's states again.
        """
        return False
