"""The meaning of each combinator, by explicit cases: a stream of one key, and its matches."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

import pytest

import rheos as rh
from rheos.api.patterns import AfterMatch, Pattern
from rheos.core.errors import ProgramError
from tests.patterns.test_matcher import matched

begin = rh.pattern.begin


def step(name: str) -> rh.col:
    return rh.col(name)


def found(pattern: Pattern, stream: str, *, timed_out: bool = False, every_ms: int = 1) -> list[str]:
    """Return the rows of each match. A row such as "b2" fulfils the conditions of the letter, and
    "bc3" those of both letters. Rows are `every_ms` apart."""
    names = stream.split()
    rows = [frozenset(name.rstrip("0123456789")) for name in names]
    times = [place * every_ms for place in range(len(rows))]
    given = matched(pattern.tree(), rows, times)
    return [
        " ".join(names[row] for row, _ in outcome.taken)
        for outcome in given
        if outcome.timed_out is timed_out
    ]


A = begin("a").where(step("a"))


def one(name: str) -> Pattern:
    """Return a group of one step."""
    return begin(name).where(step(name))


def many(name: str) -> Pattern:
    """Return a group of one greedy step."""
    return one(name).one_or_more().greedy()


class TestContiguity:
    def test_next_takes_only_the_next_row(self) -> None:
        pattern = A.next("b").where(step("b"))
        assert found(pattern, "a c b1 b2") == []
        assert found(pattern, "a1 b1 a2 c b2") == ["a1 b1"]

    def test_followed_by_skips_rows_that_do_not_match(self) -> None:
        pattern = A.followed_by("b").where(step("b")).within(None)
        assert found(pattern, "a c b1 b2") == ["a b1"]

    def test_followed_by_any_takes_each_matching_row(self) -> None:
        pattern = A.followed_by_any("b").where(step("b")).within(None)
        assert found(pattern, "a c b1 b2") == ["a b1", "a b2"]

    def test_a_row_continues_all_partial_matches(self) -> None:
        pattern = A.followed_by("b").where(step("b")).within(None)
        assert found(pattern, "a1 a2 b") == ["a1 b", "a2 b"]


class TestAbsence:
    def test_not_next(self) -> None:
        pattern = A.not_next("n").where(step("n")).followed_by("b").where(step("b")).within(None)
        assert found(pattern, "a n b") == []
        assert found(pattern, "a x n b") == ["a b"]
        assert found(pattern, "a bn b") == []

    def test_not_followed_by(self) -> None:
        pattern = A.not_followed_by("n").where(step("n")).followed_by("b").where(step("b")).within(None)
        assert found(pattern, "a1 x n b1 a2 x b2") == ["a2 b2"]
        assert found(pattern, "a bn") == ["a bn"], "the row that is taken does not lie before itself"

    def test_a_final_not_next_is_decided_by_the_next_row(self) -> None:
        pattern = A.not_next("n").where(step("n"))
        assert found(pattern, "a1 n a2 x a3") == ["a2"]

    def test_a_final_not_followed_by_is_decided_at_the_time_limit(self) -> None:
        pattern = A.not_followed_by("n").where(step("n")).within("3ms")
        assert found(pattern, "a1 x n x a2 x x n") == ["a2"]
        assert found(pattern, "a1") == ["a1"]


class TestQuantifiers:
    def test_times(self) -> None:
        pattern = A.times(2).within(None)
        assert found(pattern, "a1 x a2 a3") == ["a1 a2", "a2 a3"]

    def test_times_from_to(self) -> None:
        pattern = begin("b").where(step("b")).next("a").where(step("a")).times(1, 2).consecutive()
        assert found(pattern, "b a1 a2 a3") == ["b a1", "b a1 a2"]

    def test_one_or_more_emits_a_match_for_each_length(self) -> None:
        pattern = A.followed_by("b").where(step("b")).one_or_more().within(None)
        assert found(pattern, "a b1 b2 b3") == ["a b1", "a b1 b2", "a b1 b2 b3"]

    def test_other_rows_may_be_between_repeated_ones(self) -> None:
        between = A.followed_by_any("b").where(step("b")).one_or_more()
        end = between.followed_by("c").where(step("c")).within(None)
        assert sorted(found(end, "a b1 d b2 d b3 c")) == [
            "a b1 b2 b3 c",
            "a b1 b2 c",
            "a b1 c",
            "a b2 b3 c",
            "a b2 c",
            "a b3 c",
        ]

    def test_consecutive(self) -> None:
        between = A.followed_by_any("b").where(step("b")).one_or_more().consecutive()
        end = between.next("c").where(step("c")).within(None)
        assert found(end, "a b1 d b2 d b3 c") == ["a b3 c"]

    def test_allow_combinations(self) -> None:
        between = A.followed_by_any("b").where(step("b")).one_or_more().allow_combinations()
        end = between.followed_by("c").where(step("c")).within(None)
        assert "a b1 b3 c" in found(end, "a b1 d b2 d b3 c")
        assert len(found(end, "a b1 d b2 d b3 c")) == 7

    def test_times_or_more(self) -> None:
        pattern = A.times_or_more(2).consecutive()
        assert found(pattern, "a1 a2 a3") == ["a1 a2", "a1 a2 a3", "a2 a3"]

    def test_optional(self) -> None:
        pattern = A.next("b").where(step("b")).optional().next("c").where(step("c"))
        assert found(pattern, "a1 b c a2 c a3 b b c") == ["a1 b c", "a2 c"]

    def test_greedy(self) -> None:
        loose = A.one_or_more().followed_by("b").where(step("b")).within(None)
        greedy = A.one_or_more().greedy().followed_by("b").where(step("b")).within(None)
        assert found(loose, "a1 ab2 b3") == ["a1 ab2", "a1 ab2 b3", "ab2 b3"]
        assert found(greedy, "a1 ab2 b3") == ["a1 ab2 b3", "ab2 b3"]

    def test_until(self) -> None:
        pattern = A.one_or_more().until(step("u")).followed_by("c").where(step("c")).within(None)
        assert found(pattern, "a1 u a2 c") == ["a1 c", "a2 c"]
        whole = A.one_or_more().followed_by("c").where(step("c")).within(None)
        assert found(whole, "a1 u a2 c") == ["a1 a2 c", "a1 c", "a2 c"]

    def test_a_group(self) -> None:
        pair = begin("x").where(step("x")).followed_by("y").where(step("y"))
        pattern = A.followed_by(pair).times(2).followed_by("z").where(step("z")).within(None)
        assert found(pattern, "a x1 y1 x2 o y2 z") == ["a x1 y1 x2 y2 z"]

    def test_an_optional_group(self) -> None:
        pair = begin("x").where(step("x")).next("y").where(step("y"))
        pattern = A.next(pair).optional().next("z").where(step("z"))
        assert found(pattern, "a1 x y z1 a2 z2 a3 x z3") == ["a1 x y z1", "a2 z2"]


class TestWithin:
    def test_within_excludes_its_upper_bound(self) -> None:
        pattern = A.followed_by("b").where(step("b")).within("20ms")
        assert found(pattern, "a x b", every_ms=10) == []
        assert found(pattern, "a b", every_ms=10) == ["a b"]

    def test_incomplete_matches_time_out(self) -> None:
        pattern = A.followed_by("b").where(step("b")).followed_by("c").where(step("c")).within("3ms")
        assert found(pattern, "a1 b x x a2 x x c", timed_out=True) == ["a1 b", "a2"]

    def test_complete_matches_do_not_time_out(self) -> None:
        pattern = A.one_or_more().within("3ms")
        assert found(pattern, "a1 a2", timed_out=True) == []


class TestSkipping:
    @pytest.mark.parametrize(
        ("skip", "expected"),
        [
            (rh.pattern.no_skip(), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
            (rh.pattern.skip_to_next(), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
            (rh.pattern.skip_past_last_event(), ["b1 b2 b3 c"]),
            (rh.pattern.skip_to_first("b"), ["b1 b2 b3 c", "b2 b3 c", "b3 c"]),
            (rh.pattern.skip_to_last("b"), ["b1 b2 b3 c", "b3 c"]),
        ],
    )
    def test_skipping_after_a_run(self, skip: AfterMatch, expected: list[str]) -> None:
        run = begin("b", skip).where(step("b")).one_or_more().consecutive()
        assert found(run.next("c").where(step("c")), "b1 b2 b3 c") == expected

    def test_skip_to_next_keeps_one_match_per_first_row(self) -> None:
        def pattern(skip: AfterMatch) -> Pattern:
            first = begin("a", skip).where(step("a"))
            return first.next("b").where(step("b")).one_or_more().consecutive()

        assert found(pattern(rh.pattern.no_skip()), "a b1 b2") == ["a b1", "a b1 b2"]
        assert found(pattern(rh.pattern.skip_to_next()), "a b1 b2") == ["a b1"]

    def test_a_match_waits_for_earlier_partial_matches(self) -> None:
        first = begin("a", rh.pattern.skip_past_last_event()).where(step("a"))
        pattern = first.followed_by("b").where(step("b")).times(1, 2).greedy()
        pattern = pattern.followed_by("c").where(step("c")).within(None)
        assert found(pattern, "a1 b1 a2 b2 c") == ["a1 b1 b2 c"]


class TestIterativeConditions:
    def test_a_condition_sees_the_rows_of_its_match(self) -> None:
        def shorter(row: frozenset[str], earlier: dict[str, list[frozenset[str]]]) -> bool:
            return all(len(row) < len(before) for before in earlier["a"])

        taken = found(A.followed_by("b").where(shorter).within(None), "abc1 abd2 ab3 a4")
        assert taken == ["abc1 ab3", "abd2 ab3", "ab3 a4"]


class TestRefused:
    @pytest.mark.parametrize(
        ("pattern", "says"),
        [
            (lambda: A.followed_by("b").where(step("b")), "'b' has no time limit, so partial"),
            (lambda: A.one_or_more(), "'a' has no time limit, so partial matches could be kept"),
            (lambda: A.not_followed_by("n").where(step("n")).within(None), "the pattern ends with an"),
            (lambda: A.one_or_more().until(step("a")).within("1s"), "step 'a' can never match a row"),
            (lambda: A.next("b").where(rh.lit(False)), "step 'b' can never match a row, so the"),
            (
                lambda: A.next("b").where(rh.col("n") == 0).where(rh.col("n") == 1),
                "step 'b' can never match a row, so the pattern can never match with it",
            ),
            (lambda: A.not_next("n").next("b").where(step("b")), "step 'b' can never match a row"),
            (
                lambda: (
                    begin("x").one_or_more().greedy().followed_by("b").where(step("b")).within("1s")
                ),
                "step 'b' can never match a row, so the pattern can never match with it",
            ),
            (lambda: A.one_or_more().greedy().within("1s"), "is greedy"),
            (lambda: A.optional().within("1s"), "every step of the pattern is optional, so it would"),
            (lambda: A.next("a"), "the pattern has two steps named 'a'"),
            (lambda: begin("a", rh.pattern.skip_to_last("z")), "no such step"),
            (lambda: A.greedy(), "() applies only to a step that repeats"),
            (lambda: A.until(step("b")), "repeats without an upper bound"),
            (lambda: A.not_next("n").optional(), "does not apply to 'n'"),
            (lambda: A.times(0), "at least 1"),
            (lambda: A.where(), "needs a condition"),
            (lambda: A.where(3), "takes conditions"),
            (lambda: A.within("0s"), "greater than 0"),
            (
                lambda: A.next(A.within("1s")),
                "which only the whole pattern may have",
            ),
            (lambda: A.next(begin("b").not_next("n")), "cannot end with 'n'"),
        ],
    )
    def test_an_invalid_pattern_is_an_error_at_its_line(self, pattern: object, says: str) -> None:
        assert callable(pattern)
        with pytest.raises(ProgramError, match=says) as raised:
            found(pattern(), "a b")
        assert raised.value.site is not None
        assert raised.value.site.file == __file__

    @pytest.mark.parametrize(
        ("pattern", "named"),
        [
            # A greedy step that a match may end with.
            (lambda: A.next(many("b")), "'b' is greedy"),
            (lambda: A.next("b").where(step("b")).times(3).greedy().optional(), "'b' is greedy"),
            (lambda: A.next("b").where(step("b")).one_or_more().greedy().optional(), "'b' is greedy"),
            (lambda: begin(many("a")).next("b").where(step("b")).optional(), "'a' is greedy"),
            (lambda: begin(many("a")).next(many("b")).next(one("c")).optional(), "'b' is greedy"),
            (lambda: begin(many("a")).next(many("b").next(one("c"))).optional(), "'a' is greedy"),
            (
                lambda: (
                    begin(many("a"))
                    .next(one("b"))
                    .next("c")
                    .where(step("c"))
                    .times(2)
                    .greedy()
                    .optional()
                ),
                "'c' is greedy",
            ),
            (lambda: begin("a").one_or_more().greedy().not_next("n").where(step("n")), "'a' is greedy"),
            # An absence that rules out every row.
            (lambda: A.next(one("x")).optional().not_next("n"), "the pattern can never match: 'n'"),
            (
                lambda: begin(A.not_next("m").where(step("m")).next(one("b"))).not_next("n"),
                "the pattern can never match: 'n' excludes every row",
            ),
            # An absence without a row before it, or without an end.
            (
                lambda: A.optional().not_next("n").where(step("n")).next(one("b")).not_next("m"),
                "every step before this one is optional, so there may be no row after which to look",
            ),
            # The error names what blocks a step, not what is written after it.
            (
                lambda: A.not_next("n").next("b").where(step("b")).not_next("m").next(one("c")),
                "'n' before it",
            ),
            (
                lambda: A.not_next("m").where(step("m")).next(one("x")).not_next("n").next(one("c")),
                "'n' before it",
            ),
            (
                lambda: (
                    A.next(many("x")).followed_by("b").where(step("x")).next(many("c")).next(one("d"))
                ),
                "'x' before it is greedy",
            ),
        ],
    )
    def test_the_error_names_the_invalid_part(self, pattern: Callable[[], Pattern], named: str) -> None:
        with pytest.raises(ProgramError) as raised:
            found(pattern().within("1s"), "a b")
        assert re.search(named, f"{raised.value.what} {raised.value.hint}")

    def test_greedy_final_steps_are_named_in_random_patterns(self) -> None:
        """Each error about a greedy step disappears once only that step is not greedy."""
        refused = 0
        for seed in range(300):
            draw = Random(seed)
            kinds = [
                draw.choice(("one", "optional", "many", "three", "three?", "many?")) for _ in range(4)
            ]
            greedy = {at for at, kind in enumerate(kinds) if kind not in ("one", "optional")}
            while (named := self._refused(kinds, greedy)) is not None:
                refused += 1
                assert named in greedy, (kinds, named)
                greedy.remove(named)
        assert refused > 100

    @staticmethod
    def _refused(kinds: list[str], greedy: set[int]) -> int | None:
        pattern = begin("first").where(step("first"))
        for at, kind in enumerate(kinds):
            pattern = pattern.next(f"s{at}").where(step("abcd"[at]))
            if kind.startswith("many"):
                pattern = pattern.one_or_more()
            if kind.startswith("three"):
                pattern = pattern.times(3)
            if at in greedy:
                pattern = pattern.greedy()
            if kind == "optional" or kind.endswith("?"):
                pattern = pattern.optional()
        try:
            found(pattern.within("1s"), "a")
        except ProgramError as error:
            return int(re.findall(r"^step 's(\d)' is greedy", error.what)[0])
        return None
