"""One Spark session for all tests here; starting one takes seconds."""

from __future__ import annotations

from typing import Any

import pytest

from rheos.protocol.ids import JobId
from rheos.runtimes.contract import JobConfig


@pytest.fixture(scope="session")
def spark() -> Any:
    from rheos.runtimes.spark_session import get_session

    session, _ = get_session(JobConfig(job=JobId("tests")), slots=4)
    return session
