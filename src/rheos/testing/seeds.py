"""Runs one program under many seeds: it must commit the same rows for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rheos.core.errors import ProgramError
from rheos.runtimes.simulated.faults import Faults, Requests
from rheos.testing.drawn_settings import DrawnSettings

if TYPE_CHECKING:
    from rheos.testing.simulation import Simulated

_SHOWN = 5
QUIET = Faults(until_us=0)


@dataclass(frozen=True)
class Agreement:
    """Expectation about a program that must hold for every seed."""

    run: Callable[[DrawnSettings | None], Simulated]
    """Function that runs the program with drawn settings; with None, it runs the program without
    faults."""
    expected: Mapping[str, Sequence[Any]] | None
    """Rows of each output; None: those of the run without faults."""
    last_by: Sequence[str]

    def check(self, seeds: Iterable[int]) -> Simulated:
        """Run the program for each seed, and return the run without faults.

        Raise AssertionError for the first seed with other rows, and any error of a run with its seed.
        """
        quiet = self.run(None)
        wanted: Mapping[str, Sequence[Any]] = {
            name: table.to_pylist() for name, table in quiet.rows.items()
        }
        if self.expected is not None:
            if self.expected.keys() != wanted.keys():
                raise ProgramError(
                    f"rows are expected from {', '.join(self.expected)}, but the program "
                    f"returns {', '.join(wanted)}"
                )
            found = self._difference(self.expected, quiet)
            if found:
                raise AssertionError("\n".join(["without any fault:", *found]))
        for seed in seeds:
            drawn = DrawnSettings.draw(seed)
            try:
                done = self.run(drawn)
            except Exception as error:
                error.add_note(f"seed {seed}: {drawn}\n{_repeat_hint(seed)}")
                raise
            found = self._difference(wanted, done)
            if found:
                self._fail(wanted, drawn, found)
        return quiet

    def _fail(
        self, wanted: Mapping[str, Sequence[Any]], drawn: DrawnSettings, found: list[str]
    ) -> None:
        """Raise the error of a seed, with the simplest world that still shows it."""
        for less in _LESS:
            smaller = less(drawn)
            if smaller == drawn:
                continue
            try:
                still = self._difference(wanted, self.run(smaller))
            except Exception:
                continue  # Something else is wrong with it: that is not what is looked for.
            if still:
                drawn, found = smaller, still
        raise AssertionError(
            "\n".join(
                [
                    f"seed {drawn.seed}: the rows differ from those of a run without faults",
                    *found,
                    f"smallest case that shows it: {drawn}",
                    _repeat_hint(drawn.seed),
                ]
            )
        )

    def _difference(self, wanted: Mapping[str, Sequence[Any]], done: Simulated) -> list[str]:
        """Return some of the rows that each output lacks or has in excess."""
        lines: list[str] = []
        for name, rows in wanted.items():
            table = done.rows[name]
            expected = Counter(self._settled(_as_rows(rows, table.schema)))
            got = Counter(self._settled(table.to_pylist()))
            if expected != got:
                lines.append(
                    f"output {name!r}: {len(rows)} rows are expected, but {table.num_rows} arrived"
                )
                lines += _first_rows("missing:      ", expected - got)
                lines += _first_rows("not expected: ", got - expected)
        return lines

    def _settled(self, rows: Sequence[Mapping[str, Any]]) -> list[str]:
        by = self.last_by
        if by:
            rows = list({tuple(row[name] for name in by): row for row in rows}.values())
        return [repr(dict(row)) for row in rows]


def seeds_of(seeds: int | Iterable[int]) -> Iterable[int]:
    """Return the seeds: the first `n` numbers from 0 for a number, or the listed ones."""
    return range(seeds) if isinstance(seeds, int) else seeds


def _as_rows(rows: Sequence[Any], schema: pa.Schema) -> list[dict[str, Any]]:
    """Return expected rows with the columns and types of the output."""
    shown = [row if isinstance(row, Mapping) else vars(row) for row in rows]
    for row in shown:
        if set(row) != set(schema.names):
            raise ProgramError(
                f"a row is expected with the columns {', '.join(row) or 'none'}, but the output "
                f"has {', '.join(schema.names)}",
                record=repr(dict(row)),
                hint="use exactly these columns",
            )
    found: list[dict[str, Any]] = pa.Table.from_pylist(list(map(dict, shown)), schema).to_pylist()
    return found


def _disable_faults(*kinds: str) -> Callable[[DrawnSettings], DrawnSettings]:
    none: dict[str, Any] = dict.fromkeys(kinds, 0.0)
    return lambda drawn: replace(drawn, faults=replace(drawn.faults, **none))


_KINDS = [kind.name for kind in fields(Faults) if kind.name != "until_us"]
_LESS: Sequence[Callable[[DrawnSettings], DrawnSettings]] = (
    lambda drawn: replace(drawn, requests=Requests(), min_parallelism=None),
    lambda drawn: replace(drawn, parallelisms=(1,)),
    lambda drawn: replace(drawn, parallelisms=drawn.parallelisms[:1]),
    *map(_disable_faults, _KINDS),
)
"""Simplifications of a world; those that simplify most come first."""


def _first_rows(what: str, rows: Counter[str]) -> list[str]:
    shown = sorted(rows.elements())
    more = len(shown) - _SHOWN
    return [f"    {what} {row}" for row in shown[:_SHOWN]] + (
        [f"    {what} … and {more} more"] if more > 0 else []
    )


def _repeat_hint(seed: int) -> str:
    return f"to repeat: simulate(..., seeds=[{seed}]); or pytest --rheos-seeds={seed}, with the fixture"
