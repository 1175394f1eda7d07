"""A stream in memory in place of the service."""

from __future__ import annotations

from typing import Any

import pytest

from rheos.connectors.aws.client_options import AwsOptions
from tests.connectors.kinesis.streams import MemoryStream


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> MemoryStream:
    made = MemoryStream()
    client: Any = lambda options: made  # noqa: E731
    monkeypatch.setattr(AwsOptions, "client", client)
    return made
