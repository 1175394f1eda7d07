"""The kernels are compiled once for a user, loaded from the cache, and never needed."""

from __future__ import annotations

import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rheos.core.native import library
from rheos.runtimes.host import native_library

pytestmark = pytest.mark.skipif(native_library._compiler() is None, reason="there is no C compiler")


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Start without kernels and with an empty cache."""
    before = library.current()
    library.use(None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(native_library.SWITCH, raising=False)
    yield
    library.use(before)


def compiled() -> None:
    """Wait until the thread that compiles has ended."""
    for thread in threading.enumerate():
        if thread.name == "rheos-native":
            thread.join()


def test_a_worker_compiles_them_while_it_runs_and_the_next_one_loads_them(tmp_path: Path) -> None:
    assert native_library.form() == "native, after the first job has compiled it"
    native_library.start()
    compiled()
    assert library.current() is not None
    assert native_library.form() == "native"
    library.use(None)
    native_library.start()
    assert library.current() is not None, "it is loaded at once"
    assert len(list((tmp_path / "rheos/native").glob("*.so"))) == 1


def test_the_variable_turns_them_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(native_library.SWITCH, "0")
    native_library.start()
    compiled()
    assert library.current() is None
    assert native_library.form() == "pure Python (RHEOS_NATIVE=0)"


def test_without_a_compiler_the_python_forms_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_library, "_compiler", lambda: None)
    native_library.start()
    compiled()
    assert library.current() is None
    assert native_library.form() == "pure Python (no C compiler: pip install 'rheos[native]')"
    with pytest.raises(OSError, match="no C compiler"):
        native_library.compile_now()


def test_a_compiler_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "source", lambda: b"int broken(")
    native_library.start()
    compiled()
    assert library.current() is None
    assert not [path for path in (tmp_path / "rheos/native").iterdir() if path.suffix != ".lock"]


def test_a_library_that_is_damaged_is_compiled_again() -> None:
    path = native_library._path()
    assert path is not None
    path.write_bytes(b"no library")
    native_library.start()
    compiled()
    assert library.current() is not None


def test_a_library_that_never_loads_is_compiled_again_only_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []

    def refused(path: str) -> library.Kernels:
        made.append(Path(path).stat().st_ino)
        raise OSError("failed to map segment from shared object")

    monkeypatch.setattr(library, "Kernels", refused)
    for _ in range(5):
        native_library.start()
        compiled()
    assert library.current() is None
    assert len(set(made)) == 2


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    now, other = f"#define VERSION {library._VERSION}".encode(), b"#define VERSION 99"
    code = library.source().replace(now, other)
    monkeypatch.setattr(library, "source", lambda: code)
    with pytest.raises(OSError, match="version 99"):
        native_library.compile_now()


def test_a_package_without_the_source_uses_the_python_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> bytes:
        raise FileNotFoundError("kernels.c")

    monkeypatch.setattr(library, "source", missing)
    native_library.start()
    compiled()
    assert library.current() is None
    with pytest.raises(OSError, match="the source is missing"):
        native_library.compile_now()


def test_the_source_is_read_from_an_archive_of_packages(tmp_path: Path) -> None:
    package = Path(library.__file__).parents[2]
    archive = tmp_path / "rheos.zip"
    with zipfile.ZipFile(archive, "w") as written:
        for file in (*package.glob("*.py"), *package.glob("core/*.py"), *package.glob("core/native/*")):
            if file.is_file():
                written.write(file, file.relative_to(package.parent))
    program = "from rheos.core.native import library; print(library.__file__, len(library.source()))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": str(archive)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == [
        str(archive / "rheos/core/native/library.py"),
        str(len(library.source())),
    ]


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "rheos/native"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    with pytest.raises(OSError, match="others can write"):
        native_library.compile_now()
