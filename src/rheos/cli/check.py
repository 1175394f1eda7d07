"""`rheos check`: checks whether a savepoint's state fits a program before that program is deployed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from rheos.api.overrides import Overrides
from rheos.api.program_file import captured_program
from rheos.cli.terminal import FAILED, MISUSED, Terminal, report
from rheos.connectors.urls import absolute
from rheos.core.checkpoint.compatibility import Finding, Verdict, compare_entry, refusals
from rheos.core.checkpoint.restored_state import read_part
from rheos.core.checkpoint.savepoint import Savepoint, read_savepoint, verify_savepoint
from rheos.core.checkpoint.upgrade import Upgrade, under_new_ids
from rheos.core.errors import CheckpointError, ConfigurationError
from rheos.core.operators.shapes import state_shapes
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.snapshots import StateKind
from rheos.core.protocol.state_config import NewAggregates
from rheos.core.site import done_for
from rheos.core.state import format as state_format
from rheos.runtimes.host.stores import folder_exists, open_store

_STYLES = {
    Verdict.SAME: "green",
    Verdict.NEW: "green",
    Verdict.MIGRATES: "cyan",
    Verdict.DROPPED: "yellow",
    Verdict.UNREADABLE: "red",
}


@dataclass(frozen=True)
class CheckResult:
    """Result of the comparison of a program with a savepoint."""

    savepoint: Savepoint
    directory: str
    plan: PhysicalPlan
    findings: Sequence[Finding]
    problems: Sequence[str]
    """Problems that prevent the program from starting from the savepoint at all."""
    upgrade: Upgrade
    """State changes that the program and the command line allow."""
    command: str
    """File, arguments and savepoint as they are in the command line."""

    @property
    def lost(self) -> list[Finding]:
        """Return state that would be lost although neither the program nor the command allows it."""
        return [
            finding
            for finding in self.findings
            if finding.lost and not (self.upgrade.allow_dropped and finding.verdict is Verdict.DROPPED)
        ]

    @property
    def refusal(self) -> CheckpointError | None:
        """Return the error with which `rheos run --from-savepoint` would fail, if any."""
        return refusals(
            self.findings,
            allow_dropped=self.upgrade.allow_dropped,
            new_aggregates=self.upgrade.new_aggregates,
        )

    @property
    def good(self) -> bool:
        return not (self.lost or self.problems or self.refusal)


def check(
    file: Path,
    arguments: Sequence[str],
    directory: str,
    settings: Overrides,
    *,
    as_json: bool,
) -> int:
    """Print the result. Return the exit code: 1 if state would be lost or cannot be read, and 2 if the
    savepoint does not exist, or the command is used incorrectly."""
    try:
        captured = captured_program(file, arguments, settings)
        with done_for(captured.site):
            plan = captured.environment.plan(captured.job_name)
            upgrade = captured.environment._config.upgrade
        savepoint = _savepoint(absolute(directory))
        command = shlex.join([str(file), *arguments, "--from-savepoint", directory])
        checked = compare_with_savepoint(plan, savepoint, directory, upgrade, command)
    except KeyboardInterrupt as error:
        return report(error)
    except Exception as error:
        missing = isinstance(error, CheckpointError) and isinstance(error.__cause__, FileNotFoundError)
        return MISUSED if report(error) == MISUSED or missing else FAILED
    if as_json:
        print(json.dumps(_object(checked), indent=2))
    else:
        _print(checked)
    return 0 if checked.good else FAILED


def compare_with_savepoint(
    plan: PhysicalPlan, savepoint: Savepoint, directory: str, upgrade: Upgrade, command: str = ""
) -> CheckResult:
    """Compare a program with a savepoint. Raises SchemaError if the program declares state that cannot
    be stored, and CheckpointError if operators cannot be renamed as requested."""
    operators = {operator.id: operator.name for operator in plan.operators()}
    entry = under_new_ids(savepoint.entry, upgrade.renamed, f"the savepoint {directory!r}")
    findings = compare_entry(entry, state_shapes(plan.operators()), operators)
    problems = _problems(plan, savepoint)
    return CheckResult(savepoint, directory, plan, findings, problems, upgrade, command)


def _problems(plan: PhysicalPlan, savepoint: Savepoint) -> list[str]:
    entry = savepoint.entry
    keyed = any(handle.kind is StateKind.KEYED for handle in entry.handles)
    problems = []
    if keyed and entry.max_parallelism != plan.max_parallelism:
        problems.append(
            f"the savepoint has max_parallelism {entry.max_parallelism}, but the program has "
            f"{plan.max_parallelism}. It cannot change once a job has state. Write "
            f"rh.Environment(max_parallelism={entry.max_parallelism})"
        )
    if plan.parallelism > entry.max_parallelism:
        problems.append(
            f"parallelism {plan.parallelism} exceeds the savepoint's {entry.max_parallelism} key groups"
        )
    return problems


def _savepoint(directory: str) -> Savepoint:
    """Return the savepoint in the directory.

    Raises CheckpointError if the savepoint does not exist, if one of its files is missing or damaged,
    or if a later version of Rheos wrote it.
    """
    if not folder_exists(directory):
        raise ConfigurationError(
            f"the savepoint {directory!r} does not exist",
            hint="pass the folder that was printed when the savepoint was taken",
        )
    store = open_store(directory, make=False)
    savepoint = read_savepoint(store, directory)
    verify_savepoint(store, savepoint, directory)
    for handle in savepoint.entry.handles[:1]:
        # All parts have the same version, so the first one shows whether this release can read it.
        state_format.decode(read_part(store, handle), range(0))
    return savepoint


# --- output -----------------------------------------------------------------------------------------


def _print(checked: CheckResult) -> None:
    console = Terminal(highlight=False)
    if not console.is_terminal:
        console = Terminal(highlight=False, width=200)
    savepoint, entry = checked.savepoint, checked.savepoint.entry
    taken = datetime.fromtimestamp(savepoint.taken_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    console.print(
        Text(
            f"savepoint {savepoint.id} of {savepoint.name!r} ({savepoint.job}), taken {taken} by "
            f"Rheos {savepoint.version}\n"
            f"parallelism {entry.parallelism}, and {checked.plan.parallelism} in the program\n"
        )
    )
    table = Table(box=None, pad_edge=False)
    for heading in ("operator", "state", "field", "verdict", "what"):
        table.add_column(heading, overflow="fold")
    before = ("", "")
    for finding in checked.findings:
        operator = f"{finding.name} ({finding.operator})"
        here = (operator, finding.state)
        table.add_row(
            Text("" if before[0] == operator else operator),
            Text("" if before == here else finding.state),
            Text(finding.field),
            Text(finding.verdict.value, _STYLES[finding.verdict]),
            Text(finding.text),
        )
        before = here
    console.print(table)
    console.print()
    for problem in checked.problems:
        console.print(Text(problem, "red"))
    for line in _conclusion(checked):
        # A command stays on one line, so that users can copy it.
        command = line.startswith(" ")
        console.print(Text(line, "" if checked.good or command else "red"), soft_wrap=command)


def _conclusion(checked: CheckResult) -> Iterable[str]:
    if checked.good:
        dropped = sum(finding.lost for finding in checked.findings)
        left = f"; {dropped} dropped, as allowed" if dropped else ""
        yield f"the program can start from the savepoint without losing state{left}"
        return
    refusal = checked.refusal
    if refusal is not None:
        yield f"the program cannot start from the savepoint: {refusal.what}"
        yield f"what to do: {refusal.hint}"
        yield from _commands(checked)
    elif checked.problems:
        yield "the program cannot start from the savepoint"
    else:
        yield (
            f"the program can start from the savepoint, but would lose {len(checked.lost)} of "
            "its states; to accept that, pass --allow-dropped"
        )


def _commands(checked: CheckResult) -> Iterable[str]:
    """Yield the commands that would start the program, if options alone make that possible."""
    refused = [
        finding
        for finding in checked.findings
        if finding.refused
        and not finding.is_allowed(checked.upgrade.allow_dropped, checked.upgrade.new_aggregates)
    ]
    verdicts = {finding.verdict for finding in refused}
    if not refused or not verdicts <= {Verdict.DROPPED, Verdict.NEW}:
        return
    options = [f"--rename {old}={new}" for old, new in checked.upgrade.renamed.items()]
    if checked.upgrade.allow_dropped or Verdict.DROPPED in verdicts:
        options.append("--allow-dropped")
    chosen = checked.upgrade.new_aggregates
    wanted = [chosen] if Verdict.NEW not in verdicts else list(NewAggregates)
    for each in wanted:
        ways = [*options, *([] if each is None else [f"--new-aggregates {each.value}"])]
        yield f"  rheos run {checked.command} {' '.join(ways)}"


def _object(checked: CheckResult) -> dict[str, Any]:
    savepoint = checked.savepoint
    return {
        "savepoint": {
            "id": savepoint.id,
            "directory": checked.directory,
            "job": savepoint.job,
            "name": savepoint.name,
            "version": savepoint.version,
            "taken_ms": savepoint.taken_ms,
            "parallelism": savepoint.entry.parallelism,
            "max_parallelism": savepoint.entry.max_parallelism,
        },
        "good": checked.good,
        "starts": checked.refusal is None and not checked.problems,
        "problems": list(checked.problems),
        "findings": [
            {
                "operator": finding.operator,
                "name": finding.name,
                "state": finding.state,
                "field": finding.field,
                "verdict": finding.verdict.value,
                "what": finding.text,
                "lost": finding.lost,
                "refused": finding.refused,
                "fix": finding.fix,
            }
            for finding in checked.findings
        ],
    }
