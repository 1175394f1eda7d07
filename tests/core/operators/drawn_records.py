"""Randomly generated keyed functions with dataclasses as values and as state."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from random import Random
from typing import Any

import rheos as rh
from tests.core.operators.drawn_functions import Drawn, Given, Side


@dataclass
class Pair:
    n: int
    x: float = 0.5
    note: str | None = None
    known: bool = False


@dataclass(frozen=True)
class Mark:
    at: int
    word: str = "none"


HEAD = """
class Function(rh.KeyedProcessFunction):
    side_outputs = {"side": Side}
    p = rh.ValueState(Pair)
    q = rh.ValueState(Pair, default=Pair(3, -1.5, "start"))
    m = rh.ValueState(Mark, default=Mark(-1))
    l = rh.ValueState(Mark)
"""

FIRST = Mark(7, "first")
MARKS = [FIRST, Mark(0), Mark(-2, "last")]
BY_WORD = {"s": Mark(1, "s"), "": Mark(2, "")}

NAMES = {"a": "p", "b": "q", "c": "p"}
"""Variables, and the state whose object each may be."""


CONSTANTS = ["FIRST", "MARKS[i % 3]", "BY_WORD.get(t or 'no', FIRST)", "BY_WORD.get(t or '')"]


class RecordDrawing:
    """Generator of the source of one function."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.lines: list[str] = []

    def text(self) -> str:
        for head in ("process_element(self, row, ctx)", "on_timer(self, timestamp, ctx)"):
            rows = head.startswith("process")
            self.lines.append(f"    def {head}:")
            self.write("k = row.k" if rows else "k = ctx.key")
            self.write("i = row.a % 1009" if rows else "i = timestamp % 1009")
            self.write("x = row.x" if rows else "x = 0.25")
            self.write("t = row.t" if rows else "t = None")
            self.write("f = row.f" if rows else "f = timestamp % 2 == 0")
            self.write(f"a = {self.new()}")
            self.write("b = self.q.value")
            self.write(f"c = self.p.value or {self.new()}")
            for _ in range(self.rng.randrange(4, 9)):
                self.statement("        ", 2)
            if rows:
                self.write(f"ctx.timers.register(ctx.timestamp + {self.rng.randrange(1, 9)})")
            self.write("mark = self.l.value or self.m.value")
            self.write("yield Given(k, a.n + b.n * 3, b.x, a.known, mark.word, c.n, b.note or c.note)")
            self.write("q = self.q.value")
            self.write("yield Given(k, q.n, q.x, q.known, self.m.value.word, mark.at, q.note)")
        return HEAD + "\n".join(self.lines) + "\n"

    def write(self, line: str, indent: str = "        ") -> None:
        self.lines.append(indent + line)

    def new(self) -> str:
        return self.rng.choice(["Pair(i)", "Pair(i, x, note=t)", "Pair(known=f, n=2, x=x * 2)"])

    def statement(self, indent: str, depth: int) -> None:
        rng = self.rng
        name = rng.choice("abc")
        state = NAMES[name]
        place = rng.choice([name, name, name, "self.q.value"])
        match rng.randrange(12 if depth else 9):
            case 0 | 1:
                self.write(
                    f"{place}.n += {rng.choice(['1', 'i', f'{name}.n % 5', 'self.q.value.n'])}", indent
                )
            case 2:
                line = rng.choice(["x = x", "note = t", "known = f", "x = -{name}.x", "note = None"])
                self.write(f"{place}.{line.format(name=name)}", indent)
            case 3 | 4:
                self.write(f"self.{state}.value = {rng.choice([name, name, self.new()])}", indent)
            case 5:
                made = f"self.{state}.value or {self.new()}" if state == "p" else f"self.{state}.value"
                self.write(f"{name} = {rng.choice([made, made, self.new()])}", indent)
            case 6:
                self.write(f"self.{rng.choice('pqml')}.clear()", indent)
            case 7:
                given = rng.choice(["Mark(i)", "Mark(i, word=t or 'no')", "self.m.value", *CONSTANTS])
                self.write(f"self.{rng.choice('ml')}.value = {given}", indent)
            case 8:
                self.write(f"{name} = {self.new()} if f else {self.new()}", indent)
            case 9:
                self.write("if self.p.value is None:", indent)
                self.statement(indent + "    ", depth - 1)
                self.write("else:", indent)
                self.write(f"    self.p.value.n += {rng.randrange(3)}", indent)
                self.statement(indent + "    ", depth - 1)
            case 10:
                test = rng.choice(["f", f"{name}.n % 2", f"{name}.note", "self.q.value.known"])
                self.write(f"if {test}:", indent)
                self.statement(indent + "    ", depth - 1)
            case _:
                self.write(f"for turn in range({rng.randrange(4)}):", indent)
                self.statement(indent + "    ", depth - 1)
                self.write(f"    {name}.n += turn", indent)


def drawn_record_class(seed: int) -> Any:
    """Return a function whose source is available."""
    return record_class_of(RecordDrawing(Random(seed)).text(), f"<drawn records {seed}>")


def record_class_of(text: str, file: str) -> Any:
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {
        "rh": rh, "Pair": Pair, "Mark": Mark, "Given": Given, "Side": Side, "Drawn": Drawn,
        "FIRST": FIRST, "MARKS": MARKS, "BY_WORD": BY_WORD, "__name__": __name__,
    }  # fmt: skip
    exec(compile(text, file, "exec"), names)
    return names["Function"]
