"""Builds and proves a release: `scripts/release` calls this.

The steps, in order; the first that fails ends the run with its output:

1. All files that name the version agree, and the changelog and the golden snapshots have it.
2. `uv build` makes the sdist, and the wheel from the sdist. The metadata must be complete, and the
   description must render.
3. Each of the two is installed with the lowest and with the newest versions of its dependencies.
   There the quickstart runs without access to the sources: a new project, its tests, and its job in
   simulation and, from the wheel, on Spark.
4. The section of the changelog becomes the release notes, `out/release/NOTES.md`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = ROOT / "out" / "release"
UV = ROOT / ".venv" / "bin" / "uv"
ENVIRONMENTS = (("sql", "lowest-direct"), ("all", "lowest-direct"), ("all", "highest"))
"""Extras and resolutions. With `sql` alone, no other library raises the lower bounds of Rheos."""
URLS = {"Homepage", "Documentation", "Repository", "Changelog"}
MAX_NOTES_WORDS = 1500
"""Words of release notes that a person reads in about five minutes."""
STEP_TIMEOUT_S = 900
QUERY = """import rheos as rh

env = rh.Environment(runtime="simulated")
env.register("numbers", env.from_source(rh.collection([{"n": 3}, {"n": 4}])))
env.sql("SELECT SUM(n) AS total FROM numbers").collect("total")
print(env.execute("query").collected["total"].to_pandas()["total"].iloc[-1])
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description="Build and prove a release.")
    arguments.add_argument(
        "--any-tree", action="store_true", help="build also with uncommitted changes"
    )
    any_tree = arguments.parse_args().any_tree
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    if not any_tree and run("git", "status", "--porcelain", cwd=ROOT):
        sys.exit("release: commit or remove your changes first, or pass --any-tree")
    check(version_problems(ROOT, version), "versions")
    notes = notes_of((ROOT / "CHANGELOG.md").read_text(), version)
    shutil.rmtree(OUT, ignore_errors=True)
    run(UV, "build", "--quiet", "--out-dir", OUT, cwd=ROOT)
    wheel, sdist = only("*.whl"), only("*.tar.gz")
    check(metadata_problems(metadata_of(wheel), version) + content_problems(wheel), "metadata")
    run(UV, "tool", "run", "--quiet", "twine", "check", "--strict", wheel, sdist)
    print(f"built    {wheel.name} ({wheel.stat().st_size / 1e6:.2f} MB), {sdist.name}")
    for archive in (wheel, sdist):
        for extra, resolution in ENVIRONMENTS:
            prove(archive, extra, resolution, version, spark=archive is wheel)
            print(f"works    {archive.name}[{extra}] with {resolution} dependencies")
    (OUT / "NOTES.md").write_text(notes)
    print(f"notes    {OUT / 'NOTES.md'} ({len(notes.split())} words)")
    if any(".example" in url for url in metadata_of(wheel).get_all("Project-URL", [])):
        print("not yet  [project.urls] has reserved names: set real ones before you upload")


def version_problems(root: Path, version: str) -> list[str]:
    """Return which files do not belong to this version."""
    named = {
        "src/rheos/core/version.py": f'VERSION = "{version}"',
        "deploy/kubernetes/rheos/Chart.yaml": f'appVersion: "{version}"',
        "deploy/kubernetes/rheos/values.yaml": f"rheos:{version}",
        "deploy/docker/Dockerfile": f"rheos:{version}",
        "CHANGELOG.md": f"## {version}\n",
    }
    missing = [
        f"{path} does not contain {text!r}"
        for path, text in named.items()
        if text not in (root / path).read_text()
    ]
    if not (root / "tests" / "compat" / version).is_dir():
        missing.append(f"tests/compat/{version} is missing: run python -m tests.compat.make_golden")
    return missing


def notes_of(changelog: str, version: str) -> str:
    """Return the changelog's section of a version. Ends the program if it is missing or too long."""
    found = re.search(rf"^## {re.escape(version)}\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    if found is None:
        sys.exit(f"release: CHANGELOG.md has no section {version}")
    notes = f"# Rheos {version}\n\n{found[1].strip()}\n"
    if len(notes.split()) > MAX_NOTES_WORDS:
        sys.exit(
            f"release: the notes have {len(notes.split())} words; at most {MAX_NOTES_WORDS} are read"
        )
    return notes


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as packed:
        name = next(each for each in packed.namelist() if each.endswith(".dist-info/METADATA"))
        return Parser().parsestr(packed.read(name).decode())


def metadata_problems(metadata: Message, version: str) -> list[str]:
    """Return what a package index, or a reader of its page, would miss."""
    urls = {each.partition(",")[0] for each in metadata.get_all("Project-URL", [])}
    problems = [f"Project-URL {missing} is missing" for missing in sorted(URLS - urls)]
    needed = ("Summary", "License-Expression", "Requires-Python", "Keywords", "Classifier")
    problems += [f"{field} is missing" for field in needed if not metadata.get(field)]
    if metadata["Version"] != version:
        problems.append(f"Version is {metadata['Version']}, not {version}")
    if metadata["Description-Content-Type"] != "text/markdown":
        problems.append("the description is not Markdown")
    if "all" not in metadata.get_all("Provides-Extra", []):
        problems.append("the extra 'all' is missing")
    return problems


def content_problems(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    problems = [f"the wheel has {name}" for name in names if not name.startswith("rheos")]
    problems += ["the wheel has no rheos/py.typed"] * ("rheos/py.typed" not in names)
    return problems


def prove(archive: Path, extra: str, resolution: str, version: str, *, spark: bool) -> None:
    """Install the archive in a clean environment, and run the quickstart there."""
    with tempfile.TemporaryDirectory(prefix="rheos-release-") as folder:
        room = Path(folder)
        python = room / "venv" / "bin" / "python"
        rheos = python.with_name("rheos")
        environment = {
            **{
                name: value
                for name, value in os.environ.items()
                if name not in ("PYTHONPATH", "VIRTUAL_ENV")
            },
            "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        }
        run(UV, "venv", "--quiet", "--python", sys.executable, room / "venv")
        pins = room / "pins.txt"
        compiled = (UV, "pip", "compile", "--quiet", "--extra", extra, "--resolution", resolution)
        run(*compiled, "--output-file", pins, ROOT / "pyproject.toml")
        what = (f"rheos[{extra}] @ {archive.as_uri()}", "pytest>=8", "--constraints", pins)
        run(UV, "pip", "install", "--quiet", "--python", python, *what)
        if version not in (shown := run(rheos, "--version", env=environment)):
            sys.exit(f"release: rheos --version prints {shown.strip()!r}, not {version}")
        run(rheos, "connectors", env=environment)
        run(rheos, "init", "demo", cwd=room, env=environment)
        demo = room / "demo"
        run(python, "-m", "pytest", "-q", cwd=demo, env=environment)
        run(rheos, "run", "job.py", "--runtime", "simulated", "--for", "1m", cwd=demo, env=environment)
        (room / "query.py").write_text(QUERY)
        if (shown := run(python, "query.py", cwd=room, env=environment)).split() != ["7"]:
            sys.exit(f"release: the query prints {shown.strip()!r}, not 7")
        if spark:
            shutil.rmtree(demo / "out")
            run(rheos, "run", "job.py", "--param", "rows=1000", cwd=demo, env=environment)
        if not any((demo / "out" / "per-minute").glob("*.jsonl")):
            sys.exit("release: the quickstart's job has written no rows")


def only(pattern: str) -> Path:
    (found,) = OUT.glob(pattern)
    return found


def check(problems: Sequence[str], what: str) -> None:
    if problems:
        sys.exit(f"release: {what}:\n  " + "\n  ".join(problems))


def run(*command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Return what the command prints. If it fails, print its output and end the program."""
    ended = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=STEP_TIMEOUT_S, check=False
    )
    if ended.returncode:
        print(ended.stdout, ended.stderr, sep="\n", file=sys.stderr)
        sys.exit(
            f"release: this command failed with code {ended.returncode}: {' '.join(map(str, command))}"
        )
    return ended.stdout


if __name__ == "__main__":
    main()
