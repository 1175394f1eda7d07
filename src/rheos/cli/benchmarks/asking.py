"""Calls of a system that takes a millisecond to answer."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

ANSWERS_AFTER_S = 0.001
CAPACITY = 1000


@dataclass
class Answered:
    k: int
    v: float
    t: int


async def ask(row: Any) -> Answered:
    await asyncio.sleep(ANSWERS_AFTER_S)
    return Answered(row.k, row.v, row.t)
