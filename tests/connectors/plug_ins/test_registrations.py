"""Connectors and formats of Rheos and of other distributions: one registration is sufficient."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import rheos as rh
from rheos.cli.connectors import show_connectors
from rheos.cli.servers import serve
from rheos.connectors.registration import CONNECTORS
from rheos.connectors.sql_options import NO_EFFECT, SqlOption
from rheos.core.plug_ins import PlugInRegistry
from rheos.formats.registration import FORMATS
from rheos.ops.servers.server import Server, development_server, server_names
from tests.connectors.plug_ins.wheels import installed, ledger_wheel, wheel

ROOT = Path(__file__).parents[3]
REGISTRIES = pytest.mark.parametrize("registry", [CONNECTORS, FORMATS], ids=lambda each: each.what)


# --- built-in ones --------------------------------------------------------------------------------


@REGISTRIES
def test_built_in_registrations_are_declared_as_those_of_any_distribution(
    registry: PlugInRegistry[Any],
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][registry.group] == registry.built_in
    extras = project["optional-dependencies"]
    for name in registry.built_in:
        found = registry.find(name)
        assert found is not None
        assert found.name == name
        assert (ROOT / "docs" / found.docs).is_file()
        assert bool(found.install) == bool(found.requires)
        if found.install:
            extra = found.install.removeprefix("rheos[").removesuffix("]")
            assert extra in extras
            assert extra in re.findall(r"\w+", extras["all"][0]), "rheos[all] is everything"
            assert found.is_installed() or found.not_installed(ImportError()).hint


@pytest.mark.parametrize("name", CONNECTORS.built_in)
def test_names_in_built_in_registrations_exist(name: str) -> None:
    found = CONNECTORS.find(name)
    assert found is not None
    assert found.functions
    for what in found.functions:
        function = found.function(what)
        assert inspect.getdoc(function)
    of_functions = {
        parameter
        for each in found.functions
        for parameter in inspect.signature(found.function(each)).parameters
    }
    for option, said in found.sql_options.items():
        argument = said.argument if isinstance(said, SqlOption) else said
        assert argument == NO_EFFECT or "." in argument or argument in of_functions, option
    if found.server is not None:
        assert development_server(name).name == name
    if name in rh.__all__:
        assert getattr(rh, name).__name__ == found.module


def test_the_page_has_the_table_of_connectors() -> None:
    """Compare the page's table with the registrations. If they differ, this test prints the table."""
    rows = [
        "| name | system | reads | writes | looks up | server | to install | page |",
        "|---" * 8 + "|",
    ]
    for name in CONNECTORS.built_in:
        found = CONNECTORS.find(name)
        assert found is not None
        made = found.functions
        cells = [
            f"`{name}`",
            found.title,
            "",
            *(f"`{made[what]}`" if what in made else "" for what in ("sink", "lookup")),
            "yes" if found.server else "",
            f"`{found.install}`" if found.install else "",
            f"[{found.docs.removesuffix('.md')}]({found.docs})",
        ]
        cells[2] = ", ".join(f"`{made[what]}`" for what in ("source", "changes") if what in made)
        rows.append(f"| {' | '.join(cells)} |".replace("|  ", "| "))
    table = "\n".join(rows)
    assert table in (ROOT / "docs/connectors.md").read_text(), f"the table is\n{table}"


def test_every_function_that_makes_a_format_has_a_registration() -> None:
    made = {name for name, value in vars(rh.formats).items() if inspect.isfunction(value)}
    assert {name for name in made if not name.startswith("_")} == {*FORMATS.built_in}


def test_every_public_connector_module_has_a_registration() -> None:
    public = {
        name
        for name in rh.__all__
        if inspect.ismodule(module := getattr(rh, name))
        and module.__name__.startswith("rheos.connectors.")
    }
    assert public <= {*CONNECTORS.built_in}


def test_every_server_class_is_reached_by_a_registration() -> None:
    servers = {development_server(name) for name in server_names()}
    folder = Path(inspect.getfile(Server)).parent
    modules = [import_module(f"rheos.ops.servers.{file.stem}") for file in folder.glob("[a-z]*.py")]
    with_classes = {
        module.__name__
        for module in modules
        for found in vars(module).values()
        if inspect.isclass(found) and issubclass(found, Server) and not inspect.isabstract(found)
    }
    assert with_classes == {server.__module__ for server in servers}


# --- one of another distribution ------------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    with installed(tmp_path, ledger_wheel(tmp_path)):
        yield tmp_path


def test_a_program_uses_a_plug_in_as_a_name_of_rheos(ledger: Path) -> None:
    env = rh.Environment(runtime="simulated", parallelism=1)
    env.from_source(rh.ledger.source(str(ledger / "in.txt"), times=2)).collect("lines")
    lines = env.execute("read").collected["lines"].to_pylist()
    assert [row["line"] for row in lines] == ["one", "two", "one", "two"]
    assert "ledger" in dir(rh)
    assert rh.formats.shouted().mark == "!"


def test_sql_reads_and_writes_through_a_plug_in(ledger: Path) -> None:
    env = rh.Environment(runtime="simulated", parallelism=1)
    env.sql_script(f"""
        CREATE TABLE lines (line STRING)
        WITH ('connector' = 'ledger', 'file' = '{ledger}/in.txt', 'times' = '2');
        CREATE TABLE shouts (line STRING)
        WITH ('connector' = 'ledger', 'path' = '{ledger}/out',
              'format' = 'shouted', 'shouted.mark' = '?');
        INSERT INTO shouts SELECT line FROM lines;
    """)
    env.execute("write")
    written = [
        line for file in (ledger / "out").glob("*.txt") for line in file.read_text().splitlines()
    ]
    assert written == ["ONE?", "TWO?", "ONE?", "TWO?"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ("'connector' = 'ledgers'", "unknown connector 'ledgers'"),
        ("'connector' = 'ledger', 'file' = 'x', 'times' = 'many'", "'many' is not an integer"),
        ("'connector' = 'ledger', 'file' = 'x', 'tims' = '2'", "unknown option 'tims'"),
        ("'connector' = 'ledger'", "the option 'path' is missing"),
        ("'connector' = 'ledger', 'file' = 'x', 'csv.header' = 'true'", "no format of this table has"),
    ],
)
def test_options_of_a_plug_in_are_checked_like_built_in_ones(
    ledger: Path, options: str, error: str
) -> None:
    env = rh.Environment(runtime="simulated")
    with pytest.raises(rh.ProgramError, match=error) as raised:
        env.sql_script(f"""
            CREATE TABLE t (line STRING) WITH ({options});
            CREATE TABLE out (line STRING) WITH ('connector' = 'collect');
            INSERT INTO out SELECT line FROM t;
        """)
    if "ledgers" in options:
        assert "did you mean 'ledger'" in str(raised.value)


def test_commands_list_plug_ins(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show_connectors(as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("ledger ")]
    assert line.split() == [
        *("ledger", "source,", "sink,", "server", "yes"),
        *("pip", "install", "'acme-ledger[client]'", "acme-ledger", "1.2"),
    ]
    assert [line.split()[-2:] for line in lines if line.startswith("shouted ")] == [
        ["acme-ledger", "1.2"]
    ]
    assert issubclass(development_server("ledger"), Server)
    assert serve("ledgr", None, None) == 2
    assert "did you mean 'ledger'" in capsys.readouterr().err


def test_the_command_shows_the_capabilities_of_one(
    ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert show_connectors(as_json=False, name="ledger") == 0
    assert capsys.readouterr().out.splitlines() == [
        "reads again: yes",
        "finds splits: no",
        "source: no capabilities beyond the contract",
        "sink: no capabilities beyond the contract",
        "install: acme-ledger[client]",
        "docs: https://acme.example/ledger",
        "distribution: acme-ledger 1.2",
    ]
    assert show_connectors(as_json=True, name="kafka") == 0
    able = json.loads(capsys.readouterr().out)["capabilities"]
    assert {"Discovers", "SharesClient", "ReadsUntilNow"} <= {*able["source"]}
    assert "StagesOutput" in able["sink"]
    assert show_connectors(as_json=False, name="ledgr") == 2
    assert "did you mean 'ledger'" in capsys.readouterr().err


def test_the_error_for_a_missing_client_library_names_the_package(ledger: Path) -> None:
    with pytest.raises(rh.ConfigurationError, match="client library of Acme's ledger") as raised:
        rh.ledger.needs_a_client()
    assert f"{sys.executable} -m pip install 'acme-ledger[client]'" in str(raised.value)


# --- broken and hostile ones ----------------------------------------------------------------------

OTHER = """
    from rheos.connectors import ConnectorRegistration
    CONNECTOR = ConnectorRegistration(
        name={name!r}, title="Other", module="other_module", source="source"
    )
"""
BROKEN = {
    "raises": ("raise RuntimeError('no licence')", "cannot be loaded: RuntimeError: no licence"),
    "leaves": ("raise SystemExit(3)", "cannot be loaded: SystemExit: 3"),
    "nothing": ("", "cannot be loaded: AttributeError"),
    "a_number": ("CONNECTOR = 7", "is a int, not a ConnectorRegistration"),
    "misnamed": (OTHER.format(name="another"), "is named 'another'"),
    "without_module": (OTHER.format(name="without_module"), "cannot be used: ModuleNotFoundError"),
    "agg": (OTHER.format(name="agg"), "rheos.agg is a name of Rheos itself"),
    "sql": (OTHER.format(name="sql"), "rheos.sql is a name of Rheos itself"),
    "Capital": (OTHER.format(name="Capital"), "a name must be a lower-case identifier"),
}


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[Path]:
    files = {f"broken_{name}.py": text for name, (text, _) in BROKEN.items()}
    files["broken_kafka.py"] = OTHER.format(name="kafka")
    points = {name: f"broken_{name}:CONNECTOR" for name in (*BROKEN, "kafka")}
    made = wheel(tmp_path, "broken-things", files, {"rheos.connectors": points})
    with installed(tmp_path, made) as site:
        yield site


def used(name: str) -> None:
    found = CONNECTORS.find(name)
    assert found is not None
    CONNECTORS.imported(found, found.module)


@pytest.mark.parametrize("name", [*BROKEN])
def test_a_broken_plug_in_is_an_error_that_names_its_distribution(broken: Path, name: str) -> None:
    with pytest.raises(rh.ConfigurationError, match=r"broken-things 1\.2") as raised:
        used(name)
    assert BROKEN[name][1] in str(raised.value)
    assert "what to do" in str(raised.value)


def test_a_broken_plug_in_affects_only_its_own_uses(broken: Path) -> None:
    assert rh.kafka.__name__ == "rheos.connectors.kafka"
    assert rh.agg.__name__ == "rheos.core.aggregates"
    assert CONNECTORS.find("kafka") is not None
    with pytest.raises(AttributeError):
        rh.nothing_of_this_name  # noqa: B018
    with pytest.raises(rh.ConfigurationError, match="no licence"):
        rh.raises  # noqa: B018
    env = rh.Environment(runtime="simulated")
    with pytest.raises(rh.ProgramError, match="broken-things"):
        env.sql_script("CREATE TABLE t (n INT) WITH ('connector' = 'raises')")


def test_the_command_lists_what_is_broken(broken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert show_connectors(as_json=False) == 2
    shown = capsys.readouterr()
    assert shown.out.count("cannot be used") == len([*BROKEN, "kafka"])
    assert "Rheos already has a connector of this name" in shown.err


def test_two_distributions_with_one_name_are_both_named(tmp_path: Path) -> None:
    points = {"rheos.connectors": {"ledger": "acme_ledger.registration:CONNECTOR"}}
    with (
        installed(tmp_path, ledger_wheel(tmp_path), wheel(tmp_path, "copycat", {}, points)),
        pytest.raises(rh.ConfigurationError) as raised,
    ):
        rh.ledger  # noqa: B018
    assert "acme-ledger 1.2" in str(raised.value)
    assert "copycat 1.2" in str(raised.value)


def test_metadata_that_cannot_be_read_hides_no_other_distribution(ledger: Path) -> None:
    with installed(ledger, wheel(ledger, "torn", {}, {})) as site:
        (site / "torn-1.2.dist-info/entry_points.txt").write_text(
            "[rheos.connectors]\nno equals sign\n"
        )
        assert CONNECTORS.find("ledger") is not None


def test_names_of_rheos_do_not_scan_the_environment(broken: Path) -> None:
    program = """
import rheos as rh
from rheos.core import plug_ins

def scanned(**_):
    raise AssertionError("entry points are read")

plug_ins.entry_points = plug_ins.distributions = scanned
assert rh.kafka.source and rh.formats.avro and rh.Environment
from rheos.connectors.registration import CONNECTORS
from rheos.connectors.sql_options import NO_EFFECT, SqlOption
assert CONNECTORS.find("redis").client
"""
    path = f"{broken}:{ROOT / 'src'}"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300, env={"PYTHONPATH": path})
