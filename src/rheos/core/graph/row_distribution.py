"""Distributions of rows over the subtasks of the next operator that the program specifies itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import polars as pl

from rheos.core.errors import Site


class RowDistribution(Enum):
    """Ways that look at no row."""

    FORWARD = "forward"
    """Subtask i to subtask i."""

    REBALANCE = "rebalance"
    """Batches in turn to all subtasks."""

    RESCALE = "rescale"
    """Batches in turn to a part of the subtasks: each sender has its own receivers, or shares one."""

    GLOBAL = "global"
    """Everything to the first subtask, so who reads it has no other."""


@dataclass(frozen=True)
class PartitionBy:
    """Each row to the subtask of the number that the program computes for it.

    `to` is an expression, or makes one of the number of subtasks; where there are columns (`on`), it is
    a function of their values (one, or a tuple) and the number of subtasks.
    """

    to: pl.Expr | Callable[..., Any]
    on: tuple[str, ...]
    name: str
    """Name of the function in errors and `explain`."""
    site: Site

    def expression(self, subtasks: int) -> pl.Expr | None:
        """The number of a row's subtask; None where a function is called for it."""
        if self.on:
            return None
        expr: pl.Expr = self.to if isinstance(self.to, pl.Expr) else self.to(subtasks)
        return expr


Dealt: TypeAlias = RowDistribution | PartitionBy


def spelled(dealt: Dealt) -> str:
    return f"partition_by {dealt.name}" if isinstance(dealt, PartitionBy) else dealt.value
