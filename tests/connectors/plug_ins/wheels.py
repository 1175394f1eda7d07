"""Small distributions with plug-ins, as wheels, and a folder in which they are installed."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

from rheos.connectors.registration import CONNECTORS
from rheos.formats.registration import FORMATS

LEDGER = {
    "acme_ledger/__init__.py": '''
        """Lines of a ledger: `rh.ledger.source(path)`, `rh.ledger.sink(path)`."""
        import pathlib
        from dataclasses import dataclass

        import pyarrow as pa

        import rheos as rh

        @dataclass(frozen=True)
        class Ledger(rh.connectors.Source):
            path: str
            times: int
            schema = pa.schema({"line": pa.string()})
            bounded = True

            def splits(self):
                return [rh.connectors.Split(self.path)]

            def open(self, split, position, ctx):
                return Lines(self, int(position or b"0"))

        class Lines(rh.connectors.SplitReader):
            def __init__(self, ledger, at):
                self.schema, self.at = ledger.schema, at
                self.lines = pathlib.Path(ledger.path).read_text().splitlines() * ledger.times

            def poll(self, max_rows):
                lines = self.lines[self.at : self.at + max_rows]
                self.at += len(lines)
                if not lines:
                    return rh.connectors.EndOfSplit()
                return pa.RecordBatch.from_pydict({"line": lines}, self.schema)

            def position(self):
                return b"%d" % self.at

        def source(path: str, *, times: int = 1) -> Ledger:
            return Ledger(path, times)

        def sink(path: str, *, format: rh.formats.Format):
            return rh.files.sink(path, format=format)

        def needs_a_client():
            from acme_ledger.registration import CONNECTOR
            return CONNECTOR.client()
    ''',
    "acme_ledger/registration.py": """
        from rheos.connectors import ConnectorRegistration

        CONNECTOR = ConnectorRegistration(
            name="ledger",
            title="Acme's ledger",
            module="acme_ledger",
            source="source",
            sink="sink",
            sql_options={"file": "path"},
            requires=("acme_client",),
            install="acme-ledger[client]",
            server="acme_ledger.server:LedgerServer",
            docs="https://acme.example/ledger",
        )
    """,
    "acme_ledger/server.py": """
        import sys
        from rheos.testing.servers import Server

        class LedgerServer(Server):
            name = "ledger"
            ready = "ready"

            def install(self):
                pass

            def command(self, folder, port):
                return [sys.executable, "-c", "print('ready', flush=True)"]
    """,
    "acme_ledger/shouted.py": '''
        """A format: payloads in capitals."""
        from dataclasses import dataclass

        import pyarrow as pa

        import rheos as rh
        from rheos.formats import FormatRegistration

        FORMAT = FormatRegistration(name="shouted", title="Capitals", function=f"{__name__}:make")

        TEXT = rh.formats.text()

        @dataclass(frozen=True)
        class Shouted(rh.formats.Format):
            mark: str
            name = "shouted"
            in_lines = TEXT.in_lines
            check_decodes = check_encodes = lambda self, schema: TEXT.check_decodes(schema)

            def decoder(self, schema, header=None):
                return TEXT.decoder(schema)

            def encoder(self, schema):
                return Encoder(self.mark)

        class Encoder(rh.formats.Encoder):
            def __init__(self, mark):
                self.mark = mark.encode()

            def encode(self, rows):
                lines = rows.column(0).to_pylist()
                return pa.array([line.upper().encode() + self.mark for line in lines])

        def make(*, mark: str = "!") -> Shouted:
            return Shouted(mark)
    ''',
}


def wheel(
    folder: Path,
    distribution: str,
    files: Mapping[str, str],
    entry_points: Mapping[str, Mapping[str, str]],
) -> Path:
    """Write a wheel, as a build backend would."""
    name = distribution.replace("-", "_")
    info = f"{name}-1.2.dist-info"
    declared = "".join(
        f"[{group}]\n" + "".join(f"{each} = {value}\n" for each, value in points.items())
        for group, points in entry_points.items()
    )
    contents = {path: dedent(text) for path, text in files.items()} | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": declared,
    }
    contents[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in contents)
    made = folder / f"{name}-1.2-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in contents.items():
            archive.writestr(path, text)
    return made


def ledger_wheel(folder: Path) -> Path:
    """Write the wheel of a well-behaved distribution."""
    points = {
        "rheos.connectors": {"ledger": "acme_ledger.registration:CONNECTOR"},
        "rheos.formats": {"shouted": "acme_ledger.shouted:FORMAT"},
    }
    return wheel(folder, "acme-ledger", LEDGER, points)


@contextmanager
def installed(folder: Path, *wheels: Path) -> Iterator[Path]:
    """Unpack wheels as pip does, into a folder on Python's path for the duration of the context."""
    site = folder / "site"
    for each in wheels:
        with zipfile.ZipFile(each) as archive:
            archive.extractall(site)
    before = set(sys.modules)
    sys.path.insert(0, str(site))
    _forget()
    try:
        yield site
    finally:
        sys.path.remove(str(site))
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(site)):
                del sys.modules[name]
        _forget()


def _forget() -> None:
    for registry in (CONNECTORS, FORMATS):
        vars(registry).pop("_by_name", None)
