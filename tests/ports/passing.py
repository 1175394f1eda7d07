"""An operator that forwards its input from any port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rheos.core.operators.contract import OperatorContext, OperatorSpec
from rheos.core.operators.union import UnionOperator


@dataclass(frozen=True)
class PassingSpec(OperatorSpec):
    kind: ClassVar[str] = "passing"

    def operator(self, ctx: OperatorContext) -> UnionOperator:
        return UnionOperator(ctx)
