from __future__ import annotations

from collections.abc import Iterator

import pytest

from rheos.core.native import library
from rheos.runtimes.host import native_library


@pytest.fixture(scope="session")
def kernels() -> library.Kernels:
    """The kernels, which are compiled once for the user."""
    try:
        return native_library.compile_now()
    except OSError as error:
        pytest.skip(str(error))


@pytest.fixture
def native(kernels: library.Kernels) -> Iterator[None]:
    """Let this process use the kernels during a test."""
    before = library.current()
    library.use(kernels)
    yield
    library.use(before)
