"""A new setting is one field. This test adds three to a copy of the sources, and changes nothing
else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FIELDS = {
    "api/settings.py": (
        "    batch_rows: int = setting(\n",
        """\
    spare_slots: int = setting(2, "Slots to keep free. They are for queries.", option="--spare-slots")
    linger: Duration | None = setting("90 s", "Time that the driver lingers.", option="--linger")
""",
    ),
    "core/protocol/state_config.py": (
        "    directory: str | None = setting(\n",
        '    block_bytes: Size = setting(1 << 20, "Size of a block on disk.", option="--block-size")\n',
    ),
}
"""By the file of a declaration: the line that the new fields precede, and the fields."""
NEW = ("spare_slots", "linger", "state.block_bytes")

LOOK = """
import json, sys
from pathlib import Path

from typer.testing import CliRunner

import rheos as rh
from rheos.api import partial_settings
from rheos.api.resolve import resolve
from rheos.cli.main import app
from rheos.core.errors import Site
from tests.docs.test_settings import tables

NEW = sys.argv[1].split(",")


def refused(make):
    try:
        make()
    except rh.ConfigurationError as error:
        return str(error).splitlines()[0]


def of_file(text):
    Path("job.toml").write_text(text)
    merged = partial_settings.merge([partial_settings.from_file("job.toml")], Site("job.py", 1))
    shown = dict(resolve(merged).config.settings)
    return [merged.value(name) for name in NEW], [shown[name] for name in NEW]


Path("job.py").write_text('''
import rheos as rh
from rheos.api import overrides

env = rh.Environment(1, spare_slots=7)
print([overrides.current().override_of(name) for name in %r])
print([dict(env._config.settings)[name] for name in %r])
''' % (NEW, NEW))
runner = CliRunner()
given = "--config job.toml --spare-slots 9 --block-size 2MB".split()
found = {
    "help": runner.invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).stdout,
    "file": of_file("spare_slots = 4\\\\nlinger = '5s'\\\\n[state]\\\\nblock_bytes = '64KB'\\\\n"),
    "command": runner.invoke(app, ["run", *given, "job.py"]).stdout.splitlines(),
    "misused": runner.invoke(app, ["run", "--linger", "soon", "job.py"]).exit_code,
    "refused": [
        refused(lambda: of_file("spare_slots = 0")),
        refused(lambda: of_file("linger = '0s'")),
        refused(lambda: rh.Environment(spare_slots="many")),
    ],
    "described": [name in rh.Settings.__doc__ for name in NEW[:2]],
    "arguments": [name in str(rh.Environment.__signature__) for name in NEW[:2]],
    "page": [line for line in tables().splitlines() if any(f"`{name}`" in line for name in NEW)],
}
print(json.dumps(found))
""".replace("\\\\", "\\")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(ROOT / "src" / "rheos", folder / "rheos")
    (folder / "tests").mkdir()
    shutil.copytree(ROOT / "tests" / "docs", folder / "tests" / "docs")
    for path, (before, fields) in FIELDS.items():
        file = folder / "rheos" / path
        assert file.read_text().count(before) == 1
        file.write_text(file.read_text().replace(before, fields + before))
    ran = subprocess.run(
        [sys.executable, "-c", LOOK, ",".join(NEW)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout))


def test_a_new_setting_is_an_option_with_help(found: dict[str, Any]) -> None:
    for option in ("--spare-slots", "--linger", "--block-size"):
        assert option in found["help"]
    assert "Slots to keep free." in found["help"]
    assert "They are for queries." not in found["help"]
    assert found["misused"] == 2


def test_a_new_setting_is_read_from_a_file(found: dict[str, Any]) -> None:
    values, shown = found["file"]
    assert values == [4, "5s", 64 << 10]
    assert shown == ["4", "5s", "64KB"]


def test_options_win_over_the_file_and_the_program(found: dict[str, Any]) -> None:
    assert found["command"] == ["[9, '5s', 2097152]", "['9', '5s', '2MB']"]


def test_a_value_of_another_type_is_refused_at_its_line(found: dict[str, Any]) -> None:
    whole = "spare_slots must be a whole number of at least 1, not"
    in_file, duration, in_program = found["refused"]
    assert in_file == f"job.toml:1: {whole} 0"
    assert duration == "job.toml:1: linger must be greater than 0, not '0s'"
    assert in_program.endswith(f"{whole} 'many'")


def test_a_new_setting_is_listed_on_the_settings_page(found: dict[str, Any]) -> None:
    assert found["described"] == found["arguments"] == [True, True]
    queries = "Slots to keep free. They are for queries."
    assert sorted(found["page"]) == [
        '| `linger` | duration | `"90 s"` | `--linger` | Time that the driver lingers. |',
        f"| `spare_slots` | whole number | `2` | `--spare-slots` | {queries} |",
        '| `state.block_bytes` | size | `"1MB"` | `--block-size` | Size of a block on disk. |',
    ]


def test_no_other_file_names_a_setting_that_is_only_passed_on() -> None:
    """Check that no command names a setting, unless it uses the value itself."""
    for file in ("options.py", "run.py"):
        text = (ROOT / "src" / "rheos" / "cli" / file).read_text()
        assert "checkpoint_interval" not in text
