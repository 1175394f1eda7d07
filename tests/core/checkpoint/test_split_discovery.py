"""Discovery of splits while a job runs: when sources are listed, and which splits are announced."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from rheos.core.checkpoint import split_discovery
from rheos.core.checkpoint.coordinator import Coordinator
from rheos.core.checkpoint.events import (
    Action,
    AttemptRunning,
    ListSplits,
    LogAppended,
    LogRead,
    Recovered,
    SendToAll,
    SplitsListed,
    SplitsNotListed,
    Start,
    Tick,
    WatchedSource,
)
from rheos.core.checkpoint.log import LogView
from rheos.core.checkpoint.split_discovery import MAX_BYTES, MAX_SPLITS, SLOW_MS, SplitDiscovery
from rheos.core.errors import InputError
from rheos.core.protocol.control import SplitsFound, SplitsTaken
from rheos.core.protocol.ids import Attempt, JobId, OperatorId
from rheos.core.protocol.splits import LISTING_TRIES, Split
from tests.core.checkpoint.timelines import CONFIG, SHAPE

FOLDER = OperatorId("source-1")
TOPIC = OperatorId("source-2")
EVERY_MS = 1000


class Timeline:
    """Sequence of attempts, and the splits announced in each."""

    def __init__(self, *listed: str, parallelism: int = 2, topic: bool = False) -> None:
        watched = {FOLDER: WatchedSource(EVERY_MS, frozenset(listed))}
        if topic:
            watched[TOPIC] = WatchedSource(EVERY_MS)
        self.discovery = SplitDiscovery(watched)
        self.parallelism = parallelism
        self.attempt = Attempt(0)
        self.now_ms = 0
        self.asked: list[OperatorId] = []
        self.announced: list[SplitsFound] = []
        self.begin()

    def begin(self) -> None:
        self.attempt = Attempt(self.attempt + 1)
        self.discovery.begin(self.attempt, self.parallelism)

    def done(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, ListSplits):
                self.asked.append(action.operator)
            else:
                assert isinstance(action, SendToAll)
                assert isinstance(action.message, SplitsFound)
                assert action.message.attempt == self.attempt
                self.announced.append(action.message)

    def tick(self, after_ms: int = 0) -> None:
        self.now_ms += after_ms
        self.done(self.discovery.tick(self.now_ms))

    def listed(self, *ids: str, running: bool = True, source: OperatorId = FOLDER) -> None:
        event = SplitsListed(source, tuple(map(Split, ids)))
        self.done(self.discovery.listed(event, self.now_ms, running))

    def not_listed(self, running: bool = True) -> InputError | None:
        event = SplitsNotListed(FOLDER, InputError("the folder is away"))
        return self.discovery.not_listed(event, self.now_ms, running)  # type: ignore[return-value]

    def taken(self, subtask: int, taken: int, source: OperatorId = FOLDER) -> None:
        event = SplitsTaken(attempt=self.attempt, subtask=subtask, operator=source, taken=taken)
        self.done(self.discovery.taken(event, self.now_ms))

    def all_take(self) -> None:
        message = self.announced[-1]
        for subtask in range(self.parallelism):
            self.taken(subtask, message.before + len(message.splits))

    def found(self) -> list[tuple[int, list[str]]]:
        return [(each.before, [split.id for split in each.splits]) for each in self.announced]


def test_new_splits_are_announced_once() -> None:
    at = Timeline("a", "b")
    at.tick()
    at.listed("a", "c", "b", "d")
    assert at.found() == [(0, ["c", "d"])]
    at.all_take()
    at.tick(EVERY_MS)
    at.listed("d", "e", "a")
    assert at.found() == [(0, ["c", "d"]), (2, ["e"])]


def test_a_source_is_listed_an_interval_after_all_have_received_the_splits() -> None:
    at = Timeline()
    at.tick()
    at.tick(10 * EVERY_MS)
    assert at.asked == [FOLDER], "one listing at a time, however slow"
    at.listed("a")
    assert at.discovery.deadline_ms() == at.now_ms + EVERY_MS
    at.taken(0, 1)
    at.tick(EVERY_MS)
    assert at.asked == [FOLDER], "subtask 1 stands still"
    assert at.found() == [(0, ["a"])] * 2, "it is sent again, in case it was lost"
    at.taken(1, 1)
    at.tick(EVERY_MS - 1)
    assert at.asked == [FOLDER]
    at.tick(1)
    assert at.asked == [FOLDER, FOLDER]


def test_a_long_list_is_sent_in_acknowledged_pieces() -> None:
    at = Timeline()
    at.tick()
    names = [f"{n:04d}" for n in range(2 * MAX_SPLITS + 3)]
    at.listed(*names)
    for sent in range(1, 4):
        assert len(at.announced) == sent
        at.all_take()
    assert [len(message.splits) for message in at.announced] == [MAX_SPLITS, MAX_SPLITS, 3]
    assert [name for _, ids in at.found() for name in ids] == names


def test_a_message_is_bounded_in_bytes_too() -> None:
    large = [Split(f"{n}", bytes(MAX_BYTES * size // 4)) for n, size in enumerate([1, 2, 3, 9, 1])]
    at = Timeline()
    at.tick()
    at.done(at.discovery.listed(SplitsListed(FOLDER, tuple(large)), 0, True))
    for _ in range(5):
        at.all_take()
    assert at.found() == [(0, ["0", "1"]), (2, ["2"]), (3, ["3"]), (4, ["4"])]


def test_the_next_attempt_rediscovers_splits_that_are_in_no_state() -> None:
    at = Timeline("a")
    at.tick()
    at.listed("a", "b")
    at.begin()
    at.tick()
    at.listed("a", "b", "c")
    assert at.found() == [(0, ["b"]), (0, ["b", "c"])]


def test_a_listing_that_outlives_its_attempt_counts_in_the_next() -> None:
    at = Timeline()
    at.tick()
    at.begin()
    at.tick(EVERY_MS)
    assert at.asked == [FOLDER]
    at.listed("a")
    assert at.found() == [(0, ["a"])]


def test_listings_between_attempts_are_repeated() -> None:
    at = Timeline()
    at.tick()
    at.listed("a", running=False)
    assert at.found() == []
    at.begin()
    at.tick()
    assert at.asked == [FOLDER, FOLDER]


def test_a_failed_listing_is_retried_and_finally_fails_the_attempt() -> None:
    at = Timeline()
    for _ in range(LISTING_TRIES - 1):
        at.tick(EVERY_MS)
        assert at.not_listed() is None
        assert at.discovery.error is not None
    at.tick(EVERY_MS)
    at.listed("a")
    assert at.discovery.error is None
    at.all_take()
    for _ in range(LISTING_TRIES - 1):
        at.tick(EVERY_MS)
        assert at.not_listed() is None
    at.tick(EVERY_MS)
    assert at.not_listed() is not None


def test_a_listing_that_takes_long_is_shown_and_waited_for() -> None:
    at = Timeline()
    at.tick()
    at.tick(SLOW_MS - 1)
    assert at.discovery.error is None
    at.tick(1)
    assert "more than 60 s" in str(at.discovery.error)
    at.listed("a")
    assert at.discovery.error is None
    assert at.found() == [(0, ["a"])]


def test_splits_missing_in_two_listings_are_gone_and_may_return() -> None:
    at = Timeline()
    at.discovery = SplitDiscovery({FOLDER: WatchedSource(EVERY_MS, frozenset("ab"), forgets=True)})
    at.begin()
    for there in ("abc", "c", "ac", "c", "c", "c", "ac"):
        at.tick(EVERY_MS)
        at.listed(*there)
        for subtask in range(2):
            if at.announced:
                taken = at.announced[-1]
                at.taken(subtask, taken.before + len(taken.splits))
    said = [([s.id for s in each.splits], each.gone, each.whole) for each in at.announced]
    assert said == [
        (["c"], [], False),
        ([], [], True),
        ([], ["b"], False),
        ([], ["a"], False),
        (["a"], [], False),
    ]
    at.begin()
    at.tick()
    assert at.asked[-1] == FOLDER


def test_many_removed_splits_are_announced_in_several_messages() -> None:
    at = Timeline()
    names = [f"{n:04d}" for n in range(MAX_SPLITS + 1)]
    at.discovery = SplitDiscovery({FOLDER: WatchedSource(EVERY_MS, frozenset(names), forgets=True)})
    at.begin()
    for _ in range(2):
        at.tick(EVERY_MS)
        at.listed()
    at.all_take()
    assert [(each.gone, each.whole) for each in at.announced] == [
        (names[:MAX_SPLITS], False),
        (names[MAX_SPLITS:], True),
    ]


def test_a_warning_is_shown_until_the_first_split_is_found() -> None:
    nothing = InputError("no topic matches")
    at = Timeline()
    at.discovery = SplitDiscovery({FOLDER: WatchedSource(EVERY_MS, nothing_found=nothing)})
    at.begin()
    at.tick()
    at.listed()
    assert at.discovery.error is nothing
    for found in (["a"], []):  # None of what was found is there any more: that is no news of a pattern.
        at.tick(EVERY_MS)
        at.listed(*found)
        assert at.discovery.error is None
        if found:
            at.all_take()


def test_a_listing_that_fails_between_attempts_fails_none() -> None:
    at = Timeline()
    for _ in range(LISTING_TRIES + 1):
        at.tick(EVERY_MS)
        assert at.not_listed(running=False) is None


def test_sources_do_not_wait_for_one_another() -> None:
    at = Timeline(topic=True)
    at.tick()
    assert at.asked == [FOLDER, TOPIC]
    at.listed("a")
    at.listed("0", source=TOPIC)
    for subtask in range(2):
        at.taken(subtask, 1, TOPIC)
    at.tick(EVERY_MS)
    assert at.asked == [FOLDER, TOPIC, TOPIC]


def test_without_watched_sources_nothing_is_due() -> None:
    discovery = SplitDiscovery({})
    discovery.begin(Attempt(1), 2)
    assert discovery.deadline_ms() is None
    assert discovery.tick(0) == []


@given(
    words=st.lists(
        st.one_of(
            st.sets(st.integers(0, 9)).map(lambda ids: ("listed", ids)),
            st.tuples(st.just("taken"), st.integers(0, 2)),
            st.just(("tick", None)),
            st.just(("begin", None)),
            st.just(("failed", None)),
        ),
        max_size=40,
    )
)
def test_in_an_attempt_each_split_is_announced_once_in_one_order(
    words: list[tuple[str, object]],
) -> None:
    """Check this with slow, dying and failing parts: announcements continue where the last attempt
    ended."""
    before = split_discovery.MAX_SPLITS
    split_discovery.MAX_SPLITS = 3
    try:
        at = Timeline("0", "1", parallelism=3)
        got = [0, 0, 0]
        for what, of in words:
            under_way = at.discovery._discoveries[FOLDER].listing
            match what:
                case "listed" if under_way:
                    at.listed(*map(str, sorted(of)))  # type: ignore[call-overload]
                case "failed" if under_way:
                    at.not_listed()
                case "taken" if at.announced:
                    last = at.announced[-1]
                    got[of] = last.before + len(last.splits)  # type: ignore[index]
                    at.taken(of, got[of])  # type: ignore[index, arg-type]
                case "begin":
                    at.begin()
                    at.announced, got = [], [0, 0, 0]
                case "tick":
                    at.tick(EVERY_MS)
                case _:
                    pass
            known: dict[int, list[str]] = dict(at.found())
            ids = [id for begin in sorted(known) for id in known[begin]]
            assert not {"0", "1"} & set(ids)
            assert max(Counter(ids).values(), default=1) == 1
            assert sorted(known) == [sum(map(len, list(known.values())[:n])) for n in range(len(known))]
            assert all(len(some) <= 3 for some in known.values())
            older = sorted(known)[:-1]
            assert all(min(got) >= begin + len(known[begin]) for begin in older)
    finally:
        split_discovery.MAX_SPLITS = before


def test_the_trace_contains_found_splits_only() -> None:
    shape = replace(SHAPE, watched={FOLDER: WatchedSource(EVERY_MS)}, parallelism=1)
    coordinator = Coordinator(JobId("job"), "me", CONFIG, shape)
    coordinator.handle(Start(), 0)
    for event in (
        LogRead(LogView()),
        LogAppended(1),
        Recovered(Attempt(1)),
        AttemptRunning(Attempt(1)),
    ):
        coordinator.handle(event, 0)
    known = len(coordinator.decisions())
    for now_ms, ids in ((0, ""), (EVERY_MS, ""), (2 * EVERY_MS, "a")):
        assert ListSplits(FOLDER) in coordinator.handle(Tick(), now_ms)
        coordinator.handle(SplitsListed(FOLDER, tuple(map(Split, ids))), now_ms)
    told = [
        str(decision) for decision in coordinator.decisions()[known:] if "Trigger" not in str(decision)
    ]
    assert len(told) == 1
    assert "SplitsFound" in told[0]
