"""Distributions of rows to the subtasks of the next operator that a program can request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import polars as pl

from rheos.core.errors import Site


class RowDistribution(Enum):
    """Distributions that do not depend on the rows."""

    FORWARD = "forward"
    """Rows of subtask i go to subtask i."""

    REBALANCE = "rebalance"
    """Batches go to all subtasks in turn."""

    RESCALE = "rescale"
    """Batches go in turn to some of the subtasks: each sender has its own receivers, or shares one."""

    GLOBAL = "global"
    """Everything goes to the first subtask; other subtasks of the reader get no rows."""


@dataclass(frozen=True)
class PartitionBy:
    """Sends each row to the subtask whose number the program computes.

    Without `on`, `to` is an expression, or a function of the number of subtasks that returns one. With
    columns `on`, it is a function of their values (one, or a tuple) and the number of subtasks.
    """

    to: pl.Expr | Callable[..., Any]
    on: tuple[str, ...]
    name: str
    """Name of the user's function in errors and `explain`."""
    site: Site

    def expression(self, subtasks: int) -> pl.Expr | None:
        """Return the expression of a row's subtask number; None if a function computes it."""
        if self.on:
            return None
        expr: pl.Expr = self.to if isinstance(self.to, pl.Expr) else self.to(subtasks)
        return expr


AnyDistribution: TypeAlias = RowDistribution | PartitionBy


def spelled(by: AnyDistribution) -> str:
    return f"partition_by {by.name}" if isinstance(by, PartitionBy) else by.value
