"""An incident becomes a test with the fewest rows: it fails with the program, and passes when the
program is mended."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.protocol.state_config import Backend
from rheos.testing.incident_file import IncidentTest, incident_test
from rheos.testing.recorded_incident import incident_of_key
from tests.ops.debugging.jobs import PROGRAM, run_job, write_input

FAULTY = PROGRAM.replace(
    'size = "large"',
    'if self.total.value > 20 and len(self.amounts) > 2 and order.user != "eve":\n'
    '            raise RuntimeError("too much")\n'
    '        size = "large"',
)
assert FAULTY != PROGRAM


def ran(folder: Path, patch: pytest.MonkeyPatch, program: str, **given: Any) -> list[int]:
    patch.chdir(folder)
    patch.setenv("RHEOS_HOME", str(folder / "home"))
    Path("job.py").write_text(PROGRAM)
    write_input("0", *((user, 1 + n % 7, 20 + n) for n in range(60) for user in ("ada", "bob")))
    with contextlib.redirect_stdout(io.StringIO()):
        kept = run_job(**{"interval_ms": 60, **given})
    Path("job.py").write_text(program)
    return kept


@pytest.fixture(scope="module")
def patch() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch) -> list[int]:
    return ran(tmp_path_factory.mktemp("job"), patch, FAULTY)


def written(
    operator: str = "sessions",
    key: str = "ada",
    first: int | None = None,
    result: dict[str, Any] | None = None,
    expected: dict[str, Any] | None = None,
    **given: Any,
) -> IncidentTest:
    found = rh.debug(
        "orders", key, operator=operator, checkpoint_dir="kept", against="job.py", from_checkpoint=first
    )
    recorded = incident_of_key(found, result, has_right_row=expected is not None)
    return incident_test(recorded, Path("tests/test_incident.py"), expected=expected, **given)


def run_test(test: IncidentTest, program: str) -> None:
    """Run the test as pytest does, with this program."""
    Path("tests").mkdir(exist_ok=True)
    file = Path("tests/test_incident.py").resolve()
    file.write_text(test.text)
    before = Path("job.py").read_text()
    Path("job.py").write_text(program)
    names: dict[str, Any] = {}
    try:
        exec(compile(test.text, str(file), "exec"), names)
        (name,) = (name for name in names if name.startswith("test_"))
        names[name]()
    finally:
        Path("job.py").write_text(before)


def test_an_error_needs_few_rows(kept: list[int]) -> None:
    test = written(first=kept[0])
    # More than 20, in orders of at most 7 each.
    assert 3 <= test.rows <= 6 < test.rows_before
    assert test.is_smallest
    with pytest.raises(RheosError, match="too much") as raised:
        run_test(test, FAULTY)
    assert raised.value.site is not None
    assert raised.value.site.file.endswith("job.py")
    run_test(test, PROGRAM)


def test_a_result_needs_the_rows_that_lead_to_it(kept: list[int]) -> None:
    test = written("windows", first=kept[0], result={"n": 10})
    assert test.rows == 10
    with pytest.raises(AssertionError, match=r"job.py:\d+: operator .* emits ada"):
        run_test(test, PROGRAM)
    run_test(test, PROGRAM.replace("amount=rh.agg.sum", "amount=rh.agg.max"))


def first_result_from_state(kept: list[int]) -> tuple[int, dict[str, Any]]:
    """Return a checkpoint with a window that is open, and a part of the window's result."""
    for number in kept[1:]:
        found = rh.debug(
            "orders",
            "ada",
            operator="windows",
            checkpoint_dir="kept",
            against="job.py",
            from_checkpoint=number,
        )
        if found.state and (rows := [row.row for step in found for row in step.out]):
            return number, {"window_start": rows[0]["window_start"]}
    raise AssertionError("a checkpoint falls between the rows of a window")


@pytest.mark.parametrize(
    "backend", [Backend.MEMORY, pytest.param(Backend.ROCKSDB, marks=pytest.mark.slow)]
)
def test_the_state_of_the_checkpoint_is_kept_if_it_matters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: Backend
) -> None:
    number, result = first_result_from_state(ran(tmp_path, monkeypatch, PROGRAM, backend=backend))
    test = written("windows", first=number, result=result)
    assert "state=" in test.text
    with pytest.raises(AssertionError, match="emits"):
        run_test(test, PROGRAM)
    with pytest.raises(ConfigurationError, match="state in the checkpoint, which cannot be anonymised"):
        written("windows", first=number, result=result, pseudonyms=True)


def test_what_may_lead_to_the_right_row_stays(kept: list[int]) -> None:
    mended = PROGRAM.replace("        return\n        yield\n", "        yield Total(ctx.key, TOTAL)\n")
    mended, wrong = (mended.replace("TOTAL", each) for each in ("self.total.value", "order.amount"))
    first = kept[len(kept) // 2]
    try:
        Path("job.py").write_text(mended)
        found = rh.debug(
            "orders",
            "ada",
            operator="sessions",
            checkpoint_dir="kept",
            against="job.py",
            from_checkpoint=first,
        )
        right = [row.row for step in found for row in step.out if not row.output][-1]
        Path("job.py").write_text(wrong)
        few = written(first=first)
        test = written(first=first, expected={"amount": right["amount"]})
    finally:
        Path("job.py").write_text(FAULTY)
    with pytest.raises(AssertionError, match=r"emits .* and does not emit"):
        run_test(test, wrong)
    run_test(test, mended)
    assert few.rows == 1 < test.rows
    assert "state=" in test.text
    assert "state=" not in few.text


def test_the_right_row_of_a_window_needs_the_rows_of_this_window(kept: list[int]) -> None:
    last = written("windows", first=kept[0], result={"n": 10}, expected={"n": 9})
    assert last.rows == 10 < last.rows_before


def test_pseudonyms_hide_values_and_show_the_same(kept: list[int]) -> None:
    faulty = FAULTY.replace("self.total.value > 20", "order.amount == 4")
    Path("job.py").write_text(faulty)
    try:
        with pytest.raises(ConfigurationError, match="depends on the values of amount,") as refused:
            written(first=kept[0], pseudonyms=True, random=Random(1))
        assert "--keep amount" in str(refused.value)
        test = written(first=kept[0], pseudonyms=True, keep=["amount"], random=Random(1))
    finally:
        Path("job.py").write_text(FAULTY)
    assert "ada" not in test.text
    assert re.search(r"key=\{.user.: .[a-z]{3}.\}", test.text)
    with pytest.raises(RheosError, match="too much"):
        run_test(test, faulty)


def test_results_that_never_occurred_are_refused(kept: list[int]) -> None:
    with pytest.raises(ConfigurationError, match="emitted no row with"):
        written("windows", first=kept[0], result={"n": 99})
    with pytest.raises(ConfigurationError, match="raised no error and emitted no row"):
        written(first=kept[-1], key="bob")
    with pytest.raises(ConfigurationError, match="has the column 'kind'"):
        written(first=kept[0], pseudonyms=True, keep=["kind"])
