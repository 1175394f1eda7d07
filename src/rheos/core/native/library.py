"""The compiled kernels of this process, if it has any."""

from __future__ import annotations

import ctypes
import pkgutil

PYTHON = -1
"""Result of a kernel that has changed nothing, because the Python form must do the work."""

_VERSION = 1
"""Version of the functions and structures in `kernels.c`."""


def source() -> bytes:
    """Return the source code of the kernels, also from an archive of packages.

    Raises:
        OSError: This copy of the package has no source code of them.
    """
    code = pkgutil.get_data(__package__, "kernels.c")
    if code is None:
        raise OSError("the loader of the package cannot read its files")
    return code


class Kernels:
    """The functions of a compiled library. Their arguments are documented in `kernels.c`."""

    def __init__(self, path: str) -> None:
        """Load the library. Raise OSError if it is not a library of this version."""
        # The functions hold the interpreter's lock: they take microseconds.
        library = ctypes.PyDLL(path)
        try:
            version = library.rheos_kernels_version()
            self.cut = library.rheos_cut
            self.running = library.rheos_running
        except AttributeError as error:
            raise OSError(f"{path} is not a library of kernels: {error}") from error
        if version != _VERSION:
            raise OSError(f"{path} has kernels of version {version}, not {_VERSION}")
        address, number = ctypes.c_void_p, ctypes.c_int32
        self.cut.argtypes = [address, address, number, address, number, number, number, address]
        self.running.argtypes = [address, address, address, address]


_current: Kernels | None = None


def current() -> Kernels | None:
    """Return the kernels of this process; None if it uses the Python forms alone."""
    return _current


def use(kernels: Kernels | None) -> None:
    """Use these kernels from the next batch on; None: the Python forms. Any thread may call it."""
    global _current
    _current = kernels
