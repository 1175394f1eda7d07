"""Upgrades and rollbacks in a world of faults; and rules that are broken on purpose are noticed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rheos.core.checkpoint import savepoint_requests
from rheos.core.checkpoint.events import Action, SavepointEnded
from rheos.core.checkpoint.handover_situation import Situation
from rheos.core.checkpoint.lifecycle import JobLifecycle
from rheos.core.checkpoint.log import JobLog, LogView
from rheos.core.checkpoint.succession import Succession, SuccessionStep
from rheos.core.errors import UnrestorableError
from rheos.runtimes.simulated.store import MemoryStore
from tests.core.checkpoint.handover_world import BrokenRuleError, Faults, run

KEEP_MS = 5_000
FAULTS = {
    "none": Faults(),
    "drivers die": Faults(driver_dies=0.0007),
    "workers die": Faults(worker_dies=0.002),
    "the store fails": Faults(store_fails=0.03),
    "writes are late": Faults(store_fails=0.02, write_is_late=0.03),
    "all of it": Faults(0.0007, 0.001, 0.02, 0.02),
}
SEEDS = 4


@pytest.mark.parametrize("kind", FAULTS)
def test_one_driver_continues_and_no_output_is_lost_or_doubled(kind: str) -> None:
    worlds = [run(seed, FAULTS[kind]) for seed in range(SEEDS)]
    assert any(world.handovers for world in worlds)
    if kind == "none":
        assert all(world.handovers == 1 for world in worlds)


@pytest.mark.parametrize("kind", ["none", "all of it"])
def test_a_rollback_is_a_handover_in_the_other_direction(kind: str) -> None:
    worlds = [run(seed, FAULTS[kind], keep_ms=KEEP_MS) for seed in range(SEEDS)]
    assert any(world.rollbacks for world in worlds)
    if kind == "none":
        assert all(world.rollbacks == 1 for world in worlds)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("keep_ms", [0, KEEP_MS])
def test_many_seeds(kind: str, keep_ms: int) -> None:
    for seed in range(SEEDS, 300):
        run(seed, FAULTS[kind], keep_ms=keep_ms)


# --- broken rules -----------------------------------------------------------------------------------

Patch = pytest.MonkeyPatch


def another_checkpoint(patch: Patch) -> None:
    """The incumbent continues after it has named its successor."""

    def continues(life: JobLifecycle) -> list[Action]:
        life._checkpoints.savepoints._current = None
        return []

    patch.setattr(JobLifecycle, "_hand_over", continues)


def early_answer(patch: Patch) -> None:
    """The incumbent answers before its attempt has ended."""
    hand_over = JobLifecycle._hand_over

    def answers(life: JobLifecycle) -> list[Action]:
        offer = life._checkpoints.savepoints.offer
        assert offer is not None
        return [SavepointEnded(offer.request), *hand_over(life)]

    patch.setattr(JobLifecycle, "_hand_over", answers)
    patch.setattr(savepoint_requests.SavepointRequests, "handed_over", _unanswered)


def _unanswered(requests: savepoint_requests.SavepointRequests) -> list[Action]:
    requests._current = None
    return []


def unnamed(patch: Patch) -> None:
    """The successor claims the job before the log names it."""
    patch.setattr(Succession, "_decide_unnamed", lambda succession, view: SuccessionStep.CLAIM)


def impatient(patch: Patch) -> None:
    """The successor claims as soon as the log names it."""
    patch.setattr(Succession, "_claim_after", lambda *_: SuccessionStep.CLAIM)


def not_taken_back(patch: Patch) -> None:
    """The incumbent does not take the job back."""
    look = Succession.look

    def looks(succession: Succession, view: LogView, now_ms: int) -> SuccessionStep:
        step = look(succession, view, now_ms)
        offers = succession.situation in (Situation.OFFERED, Situation.TAKEN)
        return SuccessionStep.END if offers else step

    patch.setattr(Succession, "look", looks)


def no_fence(patch: Patch) -> None:
    """The store overwrites entries of the log."""

    def overwrites(store: MemoryStore, path: str, data: bytes) -> bool:
        store.put(path, data)
        return True

    patch.setattr(MemoryStore, "put_if_absent", overwrites)


def older_checkpoint(patch: Patch) -> None:
    """The successor continues from the checkpoint before the newest."""
    read = JobLog.read

    def reads(log: JobLog) -> LogView:
        view = read(log)
        older = view.completed[:-1] or view.completed
        return LogView(view.next_number, view.newest, older)

    patch.setattr(JobLog, "read", reads)


def run_seeds(count: int, faults: Faults) -> None:
    for seed in range(count):
        run(seed, faults)


@pytest.mark.parametrize(
    ("broken", "rule", "kind"),
    [
        (another_checkpoint, "UP1", "none"),
        (unnamed, "UP4", "none"),
        (early_answer, "UP6", "none"),
        (impatient, "UP6", "none"),
        (older_checkpoint, "UP7|CP7", "none"),
        (no_fence, "UP|CP|gap", "writes are late"),
        (not_taken_back, "UP8", "drivers die"),
    ],
)
def test_a_broken_rule_is_noticed(
    broken: Callable[[Patch], None], rule: str, kind: str, monkeypatch: Patch
) -> None:
    broken(monkeypatch)
    with pytest.raises((BrokenRuleError, UnrestorableError), match=rule):
        run_seeds(60, FAULTS[kind])
