"""A batch and a continuous program on each kind of master, and with spark-submit."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

import rheos
from tests.deploy import sales
from tests.processes import Standalone, Started

pytestmark = [pytest.mark.spark, pytest.mark.deploy]

RHEOS = str(Path(sys.executable).parent / "rheos")
SUBMIT = str(Path(pyspark.__path__[0], "bin", "spark-submit"))
PACKAGES = Path(pyspark.__path__[0]).parent


def run(started: Started, command: list[str], code: int = 0, **surroundings: str) -> str:
    driver = started.command(command, **surroundings)
    assert driver.wait(400) == code, sales.said(started.output(driver))
    return started.output(driver)


def arguments(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "out"), str(tmp_path / "checkpoints")]


@pytest.mark.slow
@pytest.mark.parametrize("master", ["local[*]", "local-cluster[2,1,1024]"])
def test_jobs_run_on_one_machine(master: str, tmp_path: Path, started: Started) -> None:
    job = str(sales.written(tmp_path))
    run(started, [RHEOS, "run", job, "--master", master, *arguments(tmp_path)])
    sales.check(tmp_path / "out")


@pytest.mark.slow
def test_jobs_run_on_a_standalone_master(
    tmp_path: Path, started: Started, standalone: Standalone
) -> None:
    command = [RHEOS, "run", str(sales.written(tmp_path)), "--master", standalone.url]
    run(started, [*command, *arguments(tmp_path)], **standalone.surroundings)
    sales.check(tmp_path / "out")


@pytest.mark.slow
def test_jobs_are_submitted_to_one_machine(tmp_path: Path, started: Started) -> None:
    job = str(sales.written(tmp_path))
    # The script takes the python3 of the path: that of the environment it is in.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    output = run(started, [SUBMIT, "--master", "local[3]", job, *arguments(tmp_path)], PATH=path)
    assert "master local[3]" in output
    sales.check(tmp_path / "out")


def bare_python(folder: Path, *before: Path) -> str:
    """Return a Python with all packages except Rheos, which searches the folders `before` them."""
    python = folder / "python"
    path = ":".join(map(str, [*before, PACKAGES]))
    export = f'export PYTHONPATH="{path}${{PYTHONPATH:+:$PYTHONPATH}}"'
    # Without `site`, the file that makes an editable install known is not read.
    python.write_text(f'#!/bin/sh\n{export}\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    return str(python)


def zipped(folder: Path, into: Path) -> Path:
    with zipfile.ZipFile(into, "w") as archive:
        for file in sorted(folder.rglob("*")):
            if file.suffix != ".pyc" and file.is_file():
                archive.write(file, file.relative_to(folder.parent))
    return into


def submit(tmp_path: Path, standalone: Standalone, job: str, *options: str) -> list[str]:
    every = ["--master", standalone.url, "--conf", "spark.executor.memory=512m", *options]
    return [SUBMIT, *every, job, *arguments(tmp_path)]


@pytest.mark.proves(
    "standalone", slow_because="every run submits to one machine, and loses one of a standalone master"
)
@pytest.mark.slow
def test_jobs_are_submitted_with_py_files_to_executors_without_rheos(
    tmp_path: Path, started: Started, standalone: Standalone
) -> None:
    job = sales.written(tmp_path)
    package = zipped(Path(rheos.__file__).parent, tmp_path / "rheos.zip")
    (tmp_path / "shipped").mkdir()
    rules = (tmp_path / "rules.py").rename(tmp_path / "shipped" / "rules.py")
    command = submit(tmp_path, standalone, str(job), "--py-files", f"{package},{rules}")
    python = bare_python(tmp_path)
    output = run(started, command, **{**standalone.surroundings, "PYSPARK_PYTHON": python})
    assert f"master {standalone.url}" in output
    sales.check(tmp_path / "out")


@pytest.mark.slow
def test_executors_without_rheos_are_named_in_the_error(
    tmp_path: Path, started: Started, standalone: Standalone
) -> None:
    job = sales.written(tmp_path)
    code, run_it = job.read_text(), '    env.execute(f"sales {runtime}")\n'
    assert run_it in code
    told = "    except rh.RheosError as error:\n        print(f'{runtime}: {error}')\n"
    job.write_text(code.replace(run_it, f"    try:\n    {run_it}{told}"))
    # It is the driver's machine: so the folder that the driver has Rheos from must not be found.
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "rheos.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'rheos'\", name='rheos')"
    )
    python = bare_python(tmp_path, hidden)
    surroundings = {
        **standalone.surroundings,
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    output = run(started, submit(tmp_path, standalone, str(job)), **surroundings)
    for runtime in ("batch", "continuous"):
        assert f"{runtime}: {job}:" in output, sales.said(output)
    for words in ("a worker's Python", "has no module 'rheos'", "--py-files"):
        assert output.count(words) == 2, sales.said(output)


@pytest.mark.slow
def test_spark_refuses_a_python_driver_in_cluster_mode_of_a_standalone_master(
    tmp_path: Path, started: Started
) -> None:
    job = str(sales.written(tmp_path))
    command = [SUBMIT, "--master", "spark://127.0.0.1:1", "--deploy-mode", "cluster"]
    output = run(started, [*command, job, *arguments(tmp_path)], code=1)
    assert "not supported for python applications on standalone clusters" in output, output
