"""Compiles the native kernels for this user and machine, and loads them. Imports only fast modules.

The compiled library is in the user's cache, under a name that has the hash of its source. A worker
loads it within a millisecond. If it does not exist yet, a thread compiles it while the worker runs with
the Python forms, and the worker changes to the kernels between two batches. Without a compiler, it
stays with the Python forms.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

from rheos.core.native import library
from rheos.runtimes.host.user_cache import own_user_cache

SWITCH = "RHEOS_NATIVE"
"""Environment variable that turns the kernels off, if it is 0."""

_OPTIONS = ("-std=c11", "-O2", "-ffp-contract=off", "-shared", "-fPIC")
_COMPILE_WITHIN_S = 120
_log = logging.getLogger(__name__)


def is_off() -> bool:
    """Return whether the user has turned the kernels off."""
    return os.environ.get(SWITCH, "").strip() == "0"


def start() -> None:
    """Use the kernels in this process: now if they are compiled, or as soon as they are.

    Returns at once, and never raises an error: without kernels, the process runs the Python forms.
    """
    if is_off() or library.current() is not None or _load_compiled():
        return
    if _compiler() is not None:
        threading.Thread(target=_compile_and_use, name="rheos-native", daemon=True).start()


def compile_now() -> library.Kernels:
    """Return the kernels, and compile them first if necessary. Raise OSError if they cannot be."""
    path = _path()
    if path is None:
        raise OSError(
            "the source is missing, or the user's cache cannot be written, or others can write it"
        )
    compiler = _compiler()
    if not path.exists():
        if compiler is None:
            raise OSError("there is no C compiler")
        _compile(compiler, path)
    return library.Kernels(str(path))


def form() -> str:
    """Return how a worker that starts now on this machine processes small batches."""
    if is_off():
        return f"pure Python ({SWITCH}=0)"
    path = _path()
    if path is not None and path.exists():
        return "native"
    if path is None or _compiler() is None:
        return "pure Python (no C compiler: pip install 'rheos[native]')"
    return "native, after the first job has compiled it"


def _compile_and_use() -> None:
    try:
        library.use(compile_now())
    except (OSError, subprocess.SubprocessError) as error:
        _log.info("small batches are processed in Python: the kernels cannot be compiled: %s", error)


def _load_compiled() -> bool:
    """Load the compiled library. Return False if it must be compiled first, because it is missing or
    damaged."""
    path = _path()
    if path is None or not path.exists():
        return False
    try:
        library.use(library.Kernels(str(path)))
    except OSError as error:
        if _move_aside(path):
            return False
        _log.info("small batches are processed in Python: the kernels cannot be loaded: %s", error)
    return True


def _move_aside(path: Path) -> bool:
    """Rename a library that cannot be loaded, so that it is compiled again. Return False if that has
    happened before: then the reason is the machine, such as a folder without the right to execute."""
    aside = path.with_suffix(".damaged")
    if aside.exists():
        return False
    try:
        path.replace(aside)
    except OSError:
        return False
    return True


def _path() -> Path | None:
    """Return the path of the compiled library; None if there is no folder that this user alone can
    write, or no source."""
    folder = own_user_cache("native")
    if folder is None:
        return None
    try:
        text = library.source() + " ".join(_OPTIONS).encode()
    except OSError:
        return None
    name = hashlib.sha256(text).hexdigest()[:16]
    return Path(folder) / f"kernels-{name}-{sysconfig.get_platform()}.so"


def _compiler() -> list[str] | None:
    """Return the command of a C compiler: the system's, or that of the package `ziglang`."""
    for name in ("cc", "gcc", "clang"):
        if (found := shutil.which(name)) is not None:
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    return None


def _compile(compiler: list[str], path: Path) -> None:
    """Compile the library to `path`. Other processes that want it wait."""
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return
        made = path.with_suffix(f".{os.getpid()}")
        # The source may be in an archive of packages, so the compiler reads it from its input.
        command = [*compiler, *_OPTIONS, "-x", "c", "-", "-o", str(made)]
        done = subprocess.run(
            command,
            input=library.source(),
            capture_output=True,
            timeout=_COMPILE_WITHIN_S,
            check=False,
        )
        if done.returncode:
            made.unlink(missing_ok=True)
            printed = done.stderr.decode(errors="replace").strip()
            raise OSError(printed[-1000:] or f"{compiler[0]} failed")
        with made.open("rb") as written:
            os.fsync(written.fileno())  # After a power failure, a part of it must not be loaded.
        made.replace(path)
