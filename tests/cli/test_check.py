"""`rheos check`: its output for a savepoint and a program, and its exit codes."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from rheos.api import overrides
from rheos.api.overrides import Overrides, ProgramCapture
from rheos.api.program_file import run_file
from rheos.cli.main import app
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.savepoint import MANIFEST, Savepoint, write_savepoint
from rheos.core.operators.shapes import state_shapes
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.protocol.snapshots import PartMode, StateHandle
from rheos.core.state import format as state_format
from rheos.runtimes.host.stores import open_store

PROGRAM = """
import enum
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import rheos as rh


class Kind(enum.Enum):
    CLICK = "click"
    BUY = "buy"


@dataclass
class Event:
    user: str
    amount: int
    at: datetime


@dataclass
class Seen:
    events: int
    kind: Kind
    note: str = ""


class Watch(rh.KeyedProcessFunction):
    seen = rh.ValueState(Seen)
    amounts = rh.ListState(int)

    def process_element(self, event: Event, ctx) -> Iterator[Event]:
        yield event


MAX_PARALLELISM = 128
env = rh.Environment(2, max_parallelism=MAX_PARALLELISM, runtime="simulated")
schema = pa.schema({"user": pa.string(), "amount": pa.int64(), "at": pa.timestamp("us")})
events = env.from_source(
    rh.collection(schema.empty_table()), watermark=rh.Watermark.monotonic(on="at"), name="events"
).uid("events")
watched = events.key_by("user").process(Watch()).name("watch").uid("watch")
hours = watched.key_by("user").window(rh.Tumbling("1h")).aggregate(n=rh.agg.count())
hours.name("per hour").uid("per-hour").sink_to(rh.print_sink())
env.execute("shop")
"""


@dataclass
class Place:
    """Folder with a savepoint of PROGRAM, and changed programs next to it."""

    folder: Path

    @property
    def savepoint(self) -> Path:
        return self.folder / "savepoint"

    def check(self, *changes: tuple[str, str], arguments: tuple[str, ...] = ()) -> Result:
        """Check PROGRAM with some strings of it replaced."""
        text = PROGRAM
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        file = self.folder / "changed.py"
        file.write_text(text)
        told = ["check", str(file), "--from-savepoint", str(self.savepoint), *arguments]
        return CliRunner().invoke(app, told)


def plan_of(file: Path) -> PhysicalPlan:
    with pytest.raises(ProgramCapture) as captured, overrides.applied(Overrides(capture=True)):
        run_file(file, [])
    return captured.value.environment.plan(captured.value.job_name)


def take_savepoint(plan: PhysicalPlan, folder: Path, *, empty: tuple[str, ...] = ()) -> Savepoint:
    """Return a savepoint of the plan, with a row in every state except those in `empty`."""
    store = open_store(str(folder))
    shapes = state_shapes(plan.operators())
    handles = []
    for operator, states in shapes.items():
        for state, shape in states.items():
            rows = 0 if state in empty else 1
            table = pa.table({"key_group": pa.array([0] * rows, pa.uint16())})
            data = state_format.encode(table, shape.kind, PartMode.FULL)
            path = f"state/{operator}/0-{state}-0.arrow"
            store.put(path, data)
            handles.append(
                StateHandle(
                    operator=operator,
                    subtask=0,
                    state=state,
                    kind=shape.kind,
                    mode=PartMode.FULL,
                    size_bytes=len(data),
                    rows=rows,
                    checksum=zlib.crc32(data),
                    path=path,
                )
            )
    entry = CheckpointCompleted(
        attempt=Attempt(1),
        owner="driver",
        reserved_to=CheckpointId(8),
        checkpoint=CheckpointId(7),
        final=False,
        parallelism=plan.parallelism,
        max_parallelism=plan.max_parallelism,
        operators={operator.id: operator.name for operator in plan.operators()},
        handles=handles,
        committables=[],
        states=shapes,
    )
    savepoint = Savepoint(
        id="shop-7-abc",
        job=JobId("shop"),
        name="shop",
        version="0.1.0",
        taken_ms=1_700_000_000_000,
        entry=entry,
    )
    write_savepoint(store, savepoint)
    return savepoint


@pytest.fixture
def place(tmp_path: Path) -> Place:
    file = tmp_path / "job.py"
    file.write_text(PROGRAM)
    place = Place(tmp_path)
    take_savepoint(plan_of(file), place.savepoint)
    return place


def lines(result: Result, verdict: str) -> list[str]:
    return [line for line in result.stdout.splitlines() if f" {verdict} " in line]


def test_the_same_program_finds_all_its_state(place: Place) -> None:
    result = place.check()
    assert result.exit_code == 0
    assert "savepoint shop-7-abc of 'shop' (shop), taken 2023-11-14 22:13:20 UTC by" in result.stdout
    assert len(lines(result, "same")) == 6
    assert "the program can start from the savepoint without losing state" in result.stdout
    assert not any(lines(result, verdict) for verdict in ("new", "dropped", "unreadable", "migrates"))


MORE = ('    note: str = ""\n', '    note: str = ""\n    level: float = 0.5\n')
LESS = ('    note: str = ""\n', "")
WIDER = ("ListState(int)", "ListState(float)")
STRICTER = ("    kind: Kind\n", "    kind: Kind\n    level: float\n")
OTHER = ("ListState(int)", "ListState(str)")
GONE = ("    amounts = rh.ListState(int)\n", "")
RENAMED = ('.uid("watch")', '.uid("watching")')


@pytest.mark.parametrize(
    ("changes", "code", "verdict", "said"),
    [
        ([MORE], 0, "migrates", "seen   level  migrates  is new: stored values get its default"),
        ([WIDER], 0, "migrates", "amounts  []     migrates  int is read as float"),
        ([LESS], 1, "dropped", "note   dropped  Seen no longer has it"),
        ([STRICTER], 1, "unreadable", "level  unreadable  is new and has no default"),
        ([OTHER], 1, "unreadable", "was int, is now str"),
        ([GONE], 1, "dropped", "the program no longer has it; it stored list of int"),
        ([('Tumbling("1h")', 'Tumbling("2h")')], 1, "unreadable", "was 3600000 ms, is now 7200000"),
        ([('Tumbling("1h")', 'Session("1h")')], 1, "unreadable", "are now of the kind session"),
        ([('    BUY = "buy"\n', "")], 1, "unreadable", "Kind no longer has 'buy'"),
        ([RENAMED], 1, "dropped", "watch (watch)"),
    ],
)
def test_changes_are_reported_field_by_field(
    place: Place, changes: Any, code: int, verdict: str, said: str
) -> None:
    result = place.check(*changes)
    assert result.exit_code == code
    found = [" ".join(line.split()) for line in lines(result, verdict)]
    assert any(" ".join(said.split()) in line for line in found), result.stdout
    assert ("the program can start from the savepoint without losing" in result.stdout) is (code == 0)


def test_dropped_state_may_be_allowed_but_unreadable_state_may_not(place: Place) -> None:
    for changes in ([LESS], [GONE], [RENAMED]):
        allowed = place.check(*changes, arguments=("--allow-dropped",))
        assert allowed.exit_code == 0
        assert "dropped, as allowed" in allowed.stdout
    assert place.check(OTHER, arguments=("--allow-dropped",)).exit_code == 1


MORE = ("n=rh.agg.count()", 'n=rh.agg.count(), most=rh.agg.max("amount")')


def test_a_new_aggregate_is_offered_with_its_commands(place: Place) -> None:
    result = place.check(MORE)
    assert result.exit_code == 1
    assert "open windows lack the value of a new aggregate" in result.stdout
    command = f"rheos run {place.folder}/changed.py --from-savepoint {place.savepoint}"
    offered = [line.strip() for line in result.stdout.splitlines() if "rheos run" in line]
    assert offered == [f"{command} --new-aggregates {way}" for way in ("null", "since")]
    for way in ("null", "since"):
        chosen = place.check(MORE, arguments=("--new-aggregates", way))
        assert chosen.exit_code == 0, chosen.stdout
    both = place.check(MORE, RENAMED)
    offered = [line.strip() for line in both.stdout.splitlines() if "rheos run" in line]
    assert f"{command} --allow-dropped --new-aggregates null" in offered


def test_a_program_may_contain_the_choice(place: Place) -> None:
    chosen = ("MAX_PARALLELISM,", 'MAX_PARALLELISM, new_aggregates="since",')
    assert place.check(MORE, chosen).exit_code == 0


def test_a_renamed_operator_is_found(place: Place) -> None:
    told = place.check(RENAMED)
    assert "if it is now the operator 'watching', add --rename watch=watching" in " ".join(
        told.stdout.split()
    )
    found = place.check(RENAMED, arguments=("--rename", "watch=watching"))
    assert found.exit_code == 0, found.stdout
    for wrong, said in (
        ("wach=watching", "has no operator 'wach' to rename to"),
        ("watch=per-hour", "two operators cannot become one"),
    ):
        refused = place.check(RENAMED, arguments=("--rename", wrong))
        assert refused.exit_code == 1
        assert said in refused.stderr
    assert place.check(RENAMED, arguments=("--rename", "watch")).exit_code == 2


def test_no_hint_refers_to_the_command_itself(place: Place) -> None:
    for changes in ([MORE], [OTHER], [GONE], [RENAMED], [LESS]):
        assert "rheos check" not in place.check(*changes).output


def test_lost_states_prevent_a_start_but_lost_fields_do_not(place: Place) -> None:
    assert "the program can start from the savepoint, but would lose 1 of" in place.check(LESS).stdout
    assert "the program cannot start from the savepoint" in place.check(GONE).stdout


def test_without_stored_state_nothing_is_lost(place: Place) -> None:
    (place.savepoint / MANIFEST).unlink()
    file = place.folder / "job.py"
    take_savepoint(plan_of(file), place.savepoint, empty=("amounts",))
    assert place.check(OTHER).exit_code == 0
    assert place.check(GONE).exit_code == 0


def test_the_key_groups_must_be_the_same(place: Place) -> None:
    result = place.check(("MAX_PARALLELISM = 128", "MAX_PARALLELISM = 64"))
    assert result.exit_code == 1
    assert "has max_parallelism 128, but the program has 64" in result.stdout


def test_a_parallelism_beyond_the_key_groups_is_reported(place: Place) -> None:
    result = place.check(
        ("MAX_PARALLELISM = 128", "MAX_PARALLELISM = 256"), arguments=("--parallelism", "200")
    )
    assert result.exit_code == 1
    assert "parallelism 200 exceeds the savepoint's 128 key groups" in result.stdout
    assert place.check(arguments=("--parallelism", "4")).exit_code == 0


def test_the_result_is_available_as_json(place: Place) -> None:
    result = place.check(LESS, arguments=("--json",))
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert (told["good"], told["starts"], told["problems"]) == (False, True, [])
    assert told["savepoint"]["id"] == "shop-7-abc"
    (lost,) = [finding for finding in told["findings"] if finding["lost"]]
    assert lost == {
        "operator": "watch",
        "name": "watch",
        "state": "seen",
        "field": "note",
        "verdict": "dropped",
        "what": "Seen no longer has it",
        "lost": True,
        "refused": False,
        "fix": "",
    }


def test_arguments_go_to_the_program(place: Place) -> None:
    chosen = ("MAX_PARALLELISM = 128", "MAX_PARALLELISM = int(sys.argv[1])")
    assert place.check(chosen, arguments=("--", "128")).exit_code == 0
    assert place.check(chosen, arguments=("--", "64")).exit_code == 1


def remove(folder: Path) -> None:
    for file in sorted(folder.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    folder.rmdir()


def damage(folder: Path) -> None:
    file = next(folder.rglob("*-seen-*.arrow"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def lose(folder: Path) -> None:
    next(folder.rglob("*-seen-*.arrow")).unlink()


def from_later(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_bytes())
    (folder / MANIFEST).write_text(json.dumps(manifest | {"format": 99}))


@pytest.mark.parametrize(
    ("spoil", "code", "said"),
    [
        (remove, 2, "does not exist"),
        (lambda folder: (folder / MANIFEST).unlink(), 2, "is incomplete: it has state, but no"),
        (damage, 1, "damaged: its checksum does not match"),
        (lose, 1, "missing"),
        (from_later, 1, "has format 99; this version reads up to 1"),
    ],
)
def test_an_incomplete_savepoint_is_reported(
    place: Place, spoil: Callable[[Path], object], code: int, said: str
) -> None:
    spoil(place.savepoint)
    result = place.check()
    assert result.exit_code == code
    assert said in result.stderr
    assert result.stdout == ""


def test_state_in_a_later_format_is_reported(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.savepoint / MANIFEST).unlink()
    with monkeypatch.context() as later:
        later.setattr(state_format, "VERSION", 99)
        take_savepoint(plan_of(place.folder / "job.py"), place.savepoint)
    result = place.check()
    assert result.exit_code == 1
    assert "has format version 99" in result.stderr


def test_a_program_that_never_executes_cannot_be_checked(place: Place) -> None:
    result = place.check(('env.execute("shop")', ""))
    assert result.exit_code == 1
    assert "ended without a call of execute" in result.stderr


def test_the_savepoint_is_a_required_argument(place: Place) -> None:
    result = CliRunner().invoke(app, ["check", str(place.folder / "job.py")])
    assert result.exit_code == 2
    assert "--from-savepoint" in result.stderr


def test_a_savepoint_of_another_job_is_reported(place: Place) -> None:
    changes = [(f'.uid("{uid}")', f'.uid("other-{uid}")') for uid in ("events", "watch", "per-hour")]
    result = place.check(*changes)
    assert result.exit_code == 1
    assert "the stored state belongs to another job: it has no operator of this" in result.stdout
