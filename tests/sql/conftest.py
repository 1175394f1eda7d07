"""Fixtures of the tests of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def unansi(spark: Any) -> Iterator[Any]:
    """Yield Spark without its ANSI mode, in UTC."""
    said = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "false",
        # The default of Spark 4. In 3.5 a string that an older parser would accept is an error.
        "spark.sql.legacy.timeParserPolicy": "CORRECTED",
        # Hundreds of columns are too many for one method of Java.
        "spark.sql.codegen.wholeStage": "false",
    }
    before = {name: spark.conf.get(name) for name in said}
    try:
        for name, value in said.items():
            spark.conf.set(name, value)
        yield spark
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
