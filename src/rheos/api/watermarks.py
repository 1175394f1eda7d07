"""Checks of a stream's watermark against its columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from rheos.api.expressions import compile_expressions
from rheos.api.function_typing import input_record
from rheos.core.callables import check_methods
from rheos.core.errors import ProgramError
from rheos.core.graph.validate import check_watermark
from rheos.core.graph.watermark import Watermark
from rheos.core.graph.watermark_generators import WatermarkGenerator


def checked_watermark(schema: pa.Schema, watermark: Any, example: str) -> Watermark:
    """Prepare a watermark for the operators. If the argument is not a watermark, raise ProgramError
    with the example as its hint."""
    if not isinstance(watermark, Watermark):
        raise ProgramError(f"{watermark!r} is not a watermark strategy", hint=f"write {example}")
    check_watermark(schema, watermark)
    if watermark.when is not None:
        (condition,), _ = compile_expressions("filter", [watermark.when], {}, schema)
        return replace(watermark, when=condition)
    generator = watermark.generated_by
    if generator is None:
        return watermark
    if not isinstance(generator, WatermarkGenerator):
        raise ProgramError(
            f"{generator!r} is not a watermark generator",
            hint="derive a class from rh.WatermarkGenerator, and pass an instance",
        )
    check_methods(generator, WatermarkGenerator, "generator")
    if watermark.period_ms is not None and watermark.period_ms <= 0:
        raise ProgramError(f"period must be greater than 0, not {watermark.period!r}")
    periodic = type(generator).on_periodic is not WatermarkGenerator.on_periodic
    if periodic != (watermark.period is not None):
        raise ProgramError(
            f"{type(generator).__name__} "
            + ("defines on_periodic(), but" if periodic else "does not define on_periodic(), but")
            + f" period is {watermark.period!r}",
            hint='write rh.Watermark.generator(Mine(), on="at", period="200ms") if it defines '
            "on_periodic(); otherwise leave out period",
        )
    return replace(watermark, record=input_record(generator.on_event, schema))
