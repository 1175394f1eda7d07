"""The examples of the documentation of Flink CEP: the matches that it lists, compared with ours. If
the two differ, the case states it, and why."""

from __future__ import annotations

import pytest

import rheos as rh
from rheos.api.patterns import AfterMatch, Pattern
from rheos.core.errors import ProgramError
from tests.patterns.test_combinators import begin, found, step

A = begin("a").where(step("a"))
C = begin("c").where(step("c"))


def matches(pattern: Pattern, stream: str, *, timed_out: bool = False, every_ms: int = 1) -> set[str]:
    given = found(pattern, stream, timed_out=timed_out, every_ms=every_ms)
    assert len(set(given)) == len(given)
    return set(given)


class TestContiguity:
    @pytest.mark.parametrize(
        ("pattern", "expected"),
        [
            (A.next("b"), set()),
            (A.followed_by("b"), {"a b1"}),
            (A.followed_by_any("b"), {"a b1", "a b2"}),
        ],
    )
    def test_contiguity_of_two_steps(self, pattern: Pattern, expected: set[str]) -> None:
        assert matches(pattern.where(step("b")).within(None), "a c b1 b2") == expected

    RELAXED = frozenset({"a b1 c", "a b1 b2 c", "a b1 b2 b3 c", "a b2 c", "a b2 b3 c", "a b3 c"})

    def test_contiguity_of_a_repeated_step(self) -> None:
        """`a`, followed by any `b+`, followed by `c`."""
        run = A.followed_by_any("b").where(step("b")).one_or_more()
        stream = "a b1 d1 b2 d2 b3 c"

        def ended(pattern: Pattern) -> Pattern:
            return pattern.followed_by("c").where(step("c")).within(None)

        assert matches(ended(run), stream) == self.RELAXED
        assert matches(ended(run.allow_combinations()), stream) == self.RELAXED | {"a b1 b3 c"}
        strict = run.consecutive().next("c").where(step("c")).within(None)
        assert matches(strict, stream) == {"a b3 c"}
        # `next` is strict for the `b` alone: the `c` may follow later.
        assert matches(ended(run.consecutive()), stream) == {"a b1 c", "a b2 c", "a b3 c"}

    STREAM = "c d a1 a2 a3 d a4 b"
    RUN = C.followed_by("a").where(step("a")).one_or_more()

    def ended(self, run: Pattern) -> Pattern:
        return run.followed_by("b").where(step("b")).within(None)

    def test_consecutive(self) -> None:
        assert matches(self.ended(self.RUN), self.STREAM) == {
            "c a1 b",
            "c a1 a2 b",
            "c a1 a2 a3 b",
            "c a1 a2 a3 a4 b",
        }
        assert matches(self.ended(self.RUN.consecutive()), self.STREAM) == {
            "c a1 b",
            "c a1 a2 b",
            "c a1 a2 a3 b",
        }

    def test_allow_combinations(self) -> None:
        """Flink also lists matches without a1, although the run is `followed_by`. Here that means
        that the run starts with the first row, as for a single step. With `followed_by_any`, all of
        Flink's matches are found."""
        from_first = {
            *("c a1 b", "c a1 a2 b", "c a1 a3 b", "c a1 a4 b", "c a1 a2 a3 b", "c a1 a2 a4 b"),
            *("c a1 a3 a4 b", "c a1 a2 a3 a4 b"),
        }
        later = {
            *("c a2 b", "c a2 a3 b", "c a2 a4 b", "c a2 a3 a4 b", "c a3 b", "c a3 a4 b", "c a4 b"),
        }
        assert matches(self.ended(self.RUN.allow_combinations()), self.STREAM) == from_first
        of_any = C.followed_by_any("a").where(step("a")).one_or_more().allow_combinations()
        assert matches(self.ended(of_any), self.STREAM) == from_first | later


class TestQuantifiers:
    @pytest.mark.parametrize(
        ("times", "expected"),
        [
            (lambda p: p.times(4), {4}),
            (lambda p: p.times(4).optional(), {0, 4}),
            (lambda p: p.times(2, 4), {2, 3, 4}),
            (lambda p: p.times(2, 4).greedy(), {4}),
            (lambda p: p.times(2, 4).optional(), {0, 2, 3, 4}),
            (lambda p: p.times(2, 4).optional().greedy(), {4}),
            (lambda p: p.one_or_more(), {1, 2, 3, 4}),
            (lambda p: p.one_or_more().greedy(), {4}),
            (lambda p: p.one_or_more().optional(), {0, 1, 2, 3, 4}),
            (lambda p: p.one_or_more().optional().greedy(), {4}),
            (lambda p: p.times_or_more(2), {2, 3, 4}),
            (lambda p: p.times_or_more(2).greedy(), {4}),
            (lambda p: p.times_or_more(2).optional(), {0, 2, 3, 4}),
            (lambda p: p.times_or_more(2).optional().greedy(), {4}),
        ],
    )
    def test_quantifiers_limit_the_number_of_rows(self, times: object, expected: set[int]) -> None:
        """The documentation states how often each takes a row; here four rows come between rows of
        two other steps."""
        assert callable(times)
        pattern = times(C.followed_by("a").where(step("a"))).followed_by("b").where(step("b"))
        given = matches(pattern.within(None), "c a1 a2 a3 a4 b")
        assert {len(match.split()) - 2 for match in given} == expected

    def test_until(self) -> None:
        """`a+` until `b`: for a1 c a2 b a3 Flink returns {a1 a2} {a1} {a2} {a3}."""
        pattern = A.one_or_more().until(step("b")).within(None)
        assert matches(pattern, "a1 c a2 b a3") == {"a1 a2", "a1", "a2", "a3"}

    def test_groups(self) -> None:
        start = begin(begin("a").where(step("a")).followed_by("b").where(step("b")))
        pair = begin("x").where(step("x")).followed_by("y").where(step("y"))
        assert matches(start.next(pair).times(2).consecutive().within(None), "a b x1 y1 x2 y2") == {
            "a b x1 y1 x2 y2"
        }
        assert matches(start.followed_by(pair).one_or_more().within(None), "a b x1 y1 d x2 y2") == {
            "a b x1 y1",
            "a b x1 y1 x2 y2",
        }
        assert matches(start.followed_by_any(pair).optional().within(None), "a b x1 y1 x2 y2") == {
            "a b",
            "a b x1 y1",
            "a b x2 y2",
        }


class TestAbsence:
    def test_not_next(self) -> None:
        pattern = A.not_next("n").where(step("n")).followed_by("b").where(step("b")).within(None)
        assert matches(pattern, "a1 n b1 a2 d n b2") == {"a2 b2"}

    def test_not_followed_by(self) -> None:
        pattern = A.not_followed_by("n").where(step("n")).followed_by("b").where(step("b")).within(None)
        assert matches(pattern, "a1 d n b1 a2 d b2") == {"a2 b2"}

    def test_a_final_absence_needs_a_time_limit(self) -> None:
        pattern = A.not_followed_by("b").where(step("b"))
        assert matches(pattern.within("10ms"), "a1 d b a2") == {"a2"}
        for unbounded in (pattern, pattern.within(None)):
            with pytest.raises(ProgramError):
                found(unbounded, "a")


class TestSkipping:
    @pytest.mark.parametrize(
        ("skip", "expected"),
        [
            (rh.pattern.no_skip(), {"b1 b2 b3 c", "b2 b3 c", "b3 c"}),
            (rh.pattern.skip_to_next(), {"b1 b2 b3 c", "b2 b3 c", "b3 c"}),
            (rh.pattern.skip_past_last_event(), {"b1 b2 b3 c"}),
            (rh.pattern.skip_to_first("b"), {"b1 b2 b3 c", "b2 b3 c", "b3 c"}),
            (rh.pattern.skip_to_last("b"), {"b1 b2 b3 c", "b3 c"}),
        ],
    )
    def test_skipping_after_a_run(self, skip: AfterMatch, expected: set[str]) -> None:
        run = begin("b", skip).where(step("b")).one_or_more().consecutive()
        assert matches(run.next("c").where(step("c")), "b1 b2 b3 c") == expected

    @pytest.mark.parametrize(
        ("skip", "expected"),
        [
            (rh.pattern.no_skip(), {"a b c1 c2 c3 d", "b c1 c2 c3 d", "c1 c2 c3 d"}),
            (rh.pattern.skip_to_first("run"), {"a b c1 c2 c3 d", "c1 c2 c3 d"}),
        ],
    )
    def test_skipping_to_the_first_row_of_a_step(self, skip: AfterMatch, expected: set[str]) -> None:
        """`(a | b | c) (b | c) c+.greedy d`."""

        def one_of(row: frozenset[str], earlier: object) -> bool:
            return bool(row & {"a", "b", "c"})

        def b_or_c(row: frozenset[str], earlier: object) -> bool:
            return bool(row & {"b", "c"})

        pattern = begin("first", skip).where(one_of).next("second").where(b_or_c)
        pattern = pattern.next("run").where(step("c")).one_or_more().consecutive().greedy()
        assert matches(pattern.next("d").where(step("d")), "a b c1 c2 c3 d") == expected

    @pytest.mark.parametrize(
        ("skip", "expected"),
        [
            (rh.pattern.no_skip(), {"a b1", "a b1 b2", "a b1 b2 b3"}),
            (rh.pattern.skip_to_next(), {"a b1"}),
        ],
    )
    def test_skipping_to_the_next_row(self, skip: AfterMatch, expected: set[str]) -> None:
        pattern = (
            begin("a", skip).where(step("a")).next("b").where(step("b")).one_or_more().consecutive()
        )
        assert matches(pattern, "a b1 b2 b3") == expected

    def test_skipping_to_a_step_without_rows_changes_nothing(self) -> None:
        skip = rh.pattern.skip_to_last("z")
        pattern = begin("a", skip).where(step("a")).next("z").where(step("z")).optional()
        assert matches(pattern.next("b").where(step("a")), "a1 a2 a3") == {"a1 a2", "a2 a3"}


class TestTime:
    def test_a_match_must_end_within_its_time(self) -> None:
        pattern = begin("start").next("middle").where(step("e")).followed_by("end").where(step("c"))
        stream = "s1 e1 d c1 s2 e2 d d d d d d d d d c2"
        assert matches(pattern.within("10s"), stream, every_ms=1000) == {"s1 e1 c1"}

    def test_partial_matches_time_out(self) -> None:
        pattern = A.followed_by("b").where(step("b")).within("10s")
        assert matches(pattern, "a1 a2 d d d d d d d d d b", timed_out=True, every_ms=1000) == {
            "a1",
            "a2",
        }
