"""Positions of a thread's execution, sampled from another thread."""

from __future__ import annotations

import sys
import threading
from queue import Queue

from rheos.core.protocol.stacks import MOST_FRAMES, StackProfile, profile_problem
from rheos.runtimes.host.stack_sampler import StackSampler, folded


def waits_here(let_go: threading.Event) -> None:
    let_go.wait()


def test_a_waiting_thread_is_sampled_at_its_position() -> None:
    let_go, found = threading.Event(), Queue[StackProfile]()
    thread = threading.Thread(target=waits_here, args=(let_go,))
    thread.start()
    assert thread.ident is not None
    sampler = StackSampler(thread.ident)
    try:
        assert sampler.begin(3, 5, 1, found.put)
        profile = found.get(timeout=20)
    finally:
        let_go.set()
        thread.join()
        sampler.close()
    assert (profile.subtask, profile.samples) == (3, 5)
    assert profile_problem(profile) is None
    assert all("waits_here (test_stack_sampler.py:" in stack for stack in profile.stacks)


def test_frames_outside_the_work_are_left_out() -> None:
    def inner() -> str:
        return folded(sys._getframe(), outer.__code__)

    def outer() -> str:
        return inner()

    names = [frame.partition(" ")[0].rpartition(".")[2] for frame in outer().split(";")]
    assert names == ["outer", "inner"]


def test_only_one_sample_runs_and_none_after_close() -> None:
    found: Queue[StackProfile] = Queue()
    sampler = StackSampler(threading.get_ident())
    assert sampler.begin(0, 600_000, 60_000, found.put)
    assert not sampler.begin(0, 5, 1, found.put)
    sampler.close()
    assert found.empty()


def test_a_deep_stack_keeps_its_innermost_frames() -> None:
    def deep(left: int) -> str:
        return deep(left - 1) if left else folded(sys._getframe())

    frames = deep(2 * MOST_FRAMES).split(";")
    assert len(frames) == MOST_FRAMES
    assert all("deep (test_stack_sampler.py:" in frame for frame in frames)
