"""Randomly generated keyed functions: plain scalar Python as a string."""

from __future__ import annotations

import linecache
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import rheos as rh

SIZES = {("s", True): 3, ("m", True): 4, ("s", False): -1, ("l", False): 7}
NAMES = {0: "zero", 1: "one", 2: None, 7: ""}
STEPS = [3, 0, 4]
LIMITS = [2, 100]


def grade(number: int, least: int = 1, most: int = LIMITS[1]) -> str:
    """Return a grade: a function that drawn functions call."""
    number += 1
    if number < least:
        return "low"
    limit = number % LIMITS[0]
    if limit:
        found = f"odd {number % 10}"
    elif number > most:
        found = "high"
    else:
        return "even"
    return found[:9]


def share(part: float, whole: int) -> float:
    """Return a quotient, half of which another function computes."""
    return half(part) / whole if whole else 0.0


def half(of: float) -> float:
    return of / 2


KNOWN = frozenset(["s", "m", ""])


@dataclass
class Drawn:
    k: int
    a: int
    b: int | None
    x: float
    y: float | None
    f: bool
    s: str
    t: str | None
    at: int


@dataclass
class Given:
    k: int
    i: int
    x: float
    f: bool
    s: str
    j: int | None
    t: str | None


@dataclass
class Side:
    n: int
    x: float


HEAD = """
import math
class Function(rh.KeyedProcessFunction):
    side_outputs = {"side": Side}
    n = rh.ValueState(int, default=0)
    m = rh.ValueState(int)
    z = rh.ValueState(float, default=0.5)
    w = rh.ValueState(str, default="")
    v = rh.ValueState(str)
    g = rh.ValueState(bool, default=False)
    e = rh.ValueState(int, default=2, ttl="8ms")
    h = rh.ValueState(str, ttl=rh.TimeToLive("10ms", renewed_on="read_and_write"))
"""


class Drawing:
    """Generator of the source of one function."""

    head = HEAD

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.locals: dict[str, list[str]] = {"int": [], "float": [], "bool": [], "str": []}
        self.rows = True

    def text(self) -> str:
        self.method("    def process_element(self, row, ctx):", rows=True)
        self.method("    def on_timer(self, timestamp, ctx):", rows=False)
        return self.head + "\n".join(self.lines) + "\n"

    def method(self, head: str, *, rows: bool) -> None:
        self.rows = rows
        self.locals = {kind: [] for kind in self.locals}
        self.lines.append(head)
        for _ in range(self.rng.randrange(2, 5)):
            self.statement(1, "        ")
        if rows:
            self.lines.append(
                f"        ctx.timers.register(ctx.timestamp + {self.rng.randrange(1, 9)})"
            )
        self.emit("        ")

    def emit(self, indent: str) -> None:
        e = self.expression
        optional_int = self.rng.choice(["self.m.value", "None", *(["row.b"] if self.rows else [])])
        optional_str = self.rng.choice(
            ["self.v.value", "NAMES.get(self.n.value)", "None", "self.h.value"]
        )
        parts = ["ctx.key", *(e(kind, 1) for kind in ("int", "float", "bool", "str"))]
        self.lines.append(f"{indent}yield Given({', '.join(parts)}, {optional_int}, t={optional_str})")

    def statement(self, depth: int, indent: str) -> None:
        rng, e = self.rng, self.expression
        choice = rng.randrange(12 if depth else 7)
        kind = rng.choice(["int", "float", "bool", "str"])
        match choice:
            case 0 | 1:
                name = f"{kind[0]}{len(self.locals[kind])}"
                self.lines.append(f"{indent}{name} = {e(kind, 2)}")
                if indent == "        ":
                    self.locals[kind].append(name)
            case 2:
                self.lines.append(
                    f"{indent}self.{rng.choice('nne')}.value {rng.choice(['=', '+=', '-='])} {e('int', 2)}"
                )
            case 3:
                state, of = rng.choice(
                    [("z", "float"), ("w", "str"), ("g", "bool"), ("v", "str"), ("h", "str")]
                )
                self.lines.append(f"{indent}self.{state}.value = {e(of, 2)}")
            case 4:
                given = "row.b" if self.rows and rng.random() < 0.5 else f"{e('int', 1)}"
                self.lines.append(f"{indent}self.m.value = {rng.choice([given, given, 'None'])}")
            case 5:
                self.lines.append(f"{indent}ctx.output('side', Side({e('int', 1)}, x={e('float', 2)}))")
            case 6:
                self.lines.append(f"{indent}self.{rng.choice('nmzwvgeh')}.clear()")
            case 7 | 8:
                self.lines.append(f"{indent}if {e('bool', 2)}:")
                self.block(depth, indent)
                if rng.random() < 0.5:
                    self.lines.append(f"{indent}else:")
                    self.block(depth, indent)
            case 9:
                items, name = rng.choice(
                    [
                        ("(1, -2, 5)", "turn"),
                        ("enumerate(STEPS)", "at, turn"),
                        (f"enumerate({e('str', 1)}.split('e'))", "turn, part"),
                    ]
                )
                self.lines.append(f"{indent}for {name} in {items}:")
                self.lines.append(f"{indent}    self.n.value += turn")
                self.block(depth, indent)
                if "part" in name:
                    self.lines.append(f"{indent}    self.w.value = part[:9]")
                if rng.random() < 0.5:
                    self.lines.append(f"{indent}    if {e('bool', 1)}:")
                    self.lines.append(f"{indent}        {rng.choice(['break', 'continue', 'return'])}")
            case 10:
                self.lines.append(f"{indent}match {e('str', 1)}, {e('int', 1)} % 3:")
                for pattern in ('"s", 1', '"m" | "l", _', f'"", _ if {e("bool", 0)}', "_, 2"):
                    self.lines.append(f"{indent}    case {pattern}:")
                    self.block(depth, indent + "    ")
                self.lines.append(f"{indent}    case other, _:")
                self.lines.append(f"{indent}        self.w.value = other[:9]")
            case _:
                self.lines.append(f"{indent}for turn in range({rng.randrange(4)}, {rng.randrange(6)}):")
                self.lines.append(f"{indent}    self.n.value += turn")
                self.lines.append(f"{indent}    if {e('bool', 1)}:")
                self.emit(f"{indent}        ")
                self.lines.append(f"{indent}        {rng.choice(['break', 'continue', 'return'])}")

    def block(self, depth: int, indent: str) -> None:
        for _ in range(self.rng.randrange(1, 3)):
            self.statement(depth - 1, indent + "    ")

    def expression(self, kind: str, depth: int) -> str:
        return f"({self._part(kind, depth)})"

    # ruff: noqa: E501
    def _part(self, kind: str, depth: int) -> str:
        rng, e = self.rng, self.expression
        made: list[Callable[[], str]]
        leaves = {
            "int": [
                "self.n.value",
                "self.e.value",
                "ctx.timestamp",
                "ctx.watermark % 97",
                str(rng.randrange(-9, 9)),
            ],
            "float": ["self.z.value", repr(rng.uniform(-3, 3)), "0.0", "-0.0"],
            "bool": ["self.g.value", "True", "self.m.value is None"],
            "str": ["self.w.value", repr(rng.choice(["s", "m", "long text", ""]))],
        }[kind] + self.locals[kind]
        if self.rows:
            leaves += [{"int": "row.a", "float": "row.x", "bool": "row.f", "str": "row.s"}[kind]] * 3
        if depth == 0:
            return rng.choice(leaves)
        d = depth - 1
        if kind == "int":
            made = [
                lambda: f"{e('int', d)} % 65537 {rng.choice('+-*&|^')} {e('int', d)} % 1009",
                lambda: (
                    f"{e('int', d)} {rng.choice(['//', '%'])} (abs({e('int', d)}) % 7 - {rng.choice([8, 8, 3])})"
                ),
                lambda: f"{rng.choice(['min', 'max'])}({e('int', d)}, {e('int', d)})",
                lambda: f"int({e('bool', d)}) + {e('bool', d)}",
                lambda: f"SIZES.get(({e('str', d)}, {e('bool', d)}), {e('int', d)})",
                lambda: f"{e('int', d)} if {e('bool', d)} else {e('int', d)}",
                lambda: f"self.m.value or {e('int', d)}",
                lambda: f"int({e('float', d)} if abs({e('float', d)}) < 1e6 else 0.0)",
                lambda: f"len({e('str', d)})",
                lambda: f"{e('str', d)}.{rng.choice(['find', 'count', 'rfind'])}({e('str', d)})",
                lambda: f"int(str({e('int', d)} % 1009)) + len({e('str', d)}.split('t'))",
                lambda: f"(abs({e('int', d)}) % 9) ** 3 >> (abs({e('int', d)}) % 5)",
                lambda: f"round(({e('int', d)} % 1009) / 8)",
            ]
        elif kind == "float":
            made = [
                lambda: f"{e('float', d)} {rng.choice('+-*')} {e('float', d)}",
                lambda: (
                    f"{e('float', d)} {rng.choice(['/', '//', '%'])} (abs({e('int', d)}) % 7 - 7.5)"
                ),
                lambda: f"{e('int', d)} % 1000003 / (abs({e('int', d)}) % 5 + 1)",
                lambda: f"-{e('float', d)}",
                lambda: f"abs(float({e('int', d)} % 77))",
                lambda: f"float(str({e('float', d)}))",
                lambda: f"share({e('float', d)}, whole={e('int', d)} % 5)",
                lambda: f"round({e('float', d)}, {rng.randrange(4)})",
                lambda: f"math.atan2({e('float', d)}, {e('int', d)} % 1009)",
                lambda: f"math.log(abs({e('int', d)} % 1009) + 1)",
                lambda: f"{rng.choice(['min', 'max'])}({e('float', d)}, {e('float', d)})",
            ]
        elif kind == "bool":
            kinds = rng.choice([("int", "int"), ("float", "float"), ("int", "float"), ("float", "int")])
            made = [
                lambda: (
                    f"{e(kinds[0], d)} {rng.choice(['<', '<=', '>', '>=', '==', '!='])} {e(kinds[1], d)}"
                ),
                lambda: f"{e('bool', d)} {rng.choice(['and', 'or'])} {e('bool', d)}",
                lambda: f"not {e(rng.choice(['bool', 'int', 'float', 'str']), d)}",
                lambda: f"{e('str', d)} {rng.choice(['==', '!='])} {e('str', d)}",
                lambda: (
                    f"{e('str', d)} {rng.choice(['in', 'not in'])} {rng.choice(['KNOWN', '(' + repr('s') + ',)'])}"
                ),
                lambda: f"{e('int', d)} < {e('int', d)} <= {e('int', d)}",
                lambda: f"self.m.value == {e('int', d)}",
                lambda: "self.v.value is not None and self.v.value != self.w.value",
                lambda: (
                    f"{e('str', d)} {rng.choice(['<', '<=', '>', '>=', 'in', 'not in'])} {e('str', d)}"
                ),
                lambda: f"{e('str', d)}.{rng.choice(['startswith', 'endswith'])}({e('str', d)})",
                lambda: (
                    f"{e('str', d)}.startswith(('s', 'lo')) or {e('str', d)} in {e('str', d)}.split()"
                ),
                lambda: f"{e('str', d)}.{rng.choice(['isalpha', 'isdigit', 'isupper'])}()",
            ]
            if self.rows:
                made += [
                    lambda: "row.b is None or row.b > 3",
                    lambda: "row.t == row.s",
                    lambda: "row.y != 0.0",
                ]
        else:
            made = [
                lambda: f"{e('str', d)} if {e('bool', d)} else {e('str', d)}",
                lambda: f"{e('str', d)} or {e('str', d)}",
                lambda: f"{e('str', d)} and {e('str', d)}",
                lambda: f"self.{rng.choice('vh')}.value or 'nothing'",
                lambda: f"({e('str', d)} + {e('str', d)})[{rng.randrange(-3, 3)}:12]",
                lambda: f"{e('str', d)}.{rng.choice(['upper()', 'title()', 'strip()'])}",
                lambda: f"{e('str', d)}.replace({rng.choice('slt')!r}, self.w.value)[:12]",
                lambda: f"({e('str', d)} * ({e('int', d)} % 3))[:12:{rng.choice([-1, 1, 2])}]",
                lambda: (
                    f'f"{{{e("int", 0)}}}-{{{e("str", 0)}}}{{{e("float", 0)}:.2f}}"[:12]'  # No nesting.
                ),
                lambda: (
                    f'f"{{self.m.value}}{{self.v.value!r:>7}}{{{e("bool", 0)}}}{{{e("int", 0)}:,}}"[:15]'
                ),
                lambda: f"'.'.join([{e('str', d)}, str({e('int', d)} % 7)])[-12:]",
                lambda: f"({e('str', d)} + ' ').split(' ')[0]",
                lambda: f"grade({e('int', d)} % 1009{rng.choice(['', ', 5', ', most=7'])})",
                lambda: f"{rng.choice(['min', 'max'])}({e('str', d)}, {e('str', d)})",
            ]
            if self.rows:
                made.append(lambda: "'' if row.t is None else row.s")
        return rng.choice(made)()


class ListDrawing(Drawing):
    """Generator of the source of a function with lists and maps."""

    head = (
        HEAD
        + """
    p = rh.ListState(int)
    q = rh.ListState(str)
    r = rh.ListState(float)
    c = rh.MapState(str, int)
    d = rh.MapState(int, float, ttl="6ms")
    u = rh.MapState(int, str, ttl=rh.TimeToLive("9ms", renewed_on="read_and_write"))
"""
    )

    def statement(self, depth: int, indent: str) -> None:
        rng, e = self.rng, self.expression
        match rng.randrange(14):
            case 9:
                self.lines.append(f"{indent}self.c[{e('str', 1)}[:2]] = {e('int', 1)}")
                self.lines.append(f"{indent}self.n.value += self.c.get({e('str', 1)}[:2], 3)")
            case 10:
                self.lines.append(f"{indent}self.d[{e('int', 1)} % 5] = {e('float', 1)}")
                self.lines.append(f"{indent}self.z.value = self.d.get({e('int', 1)} % 5) or 0.5")
            case 11:
                self.lines.append(f"{indent}self.u[{e('int', 1)} % 5] = {e('str', 1)}[:5]")
                self.lines.append(f"{indent}self.w.value = self.u.get({e('int', 1)} % 5, 'none')")
            case 12:
                name = rng.choice("du")
                self.lines += [
                    f"{indent}item = {e('int', 1)} % 5",
                    f"{indent}if item in self.{name}:",
                    f"{indent}    del self.{name}[item]",
                    f"{indent}    self.c['again'] = len(self.c)",
                    f"{indent}    self.c['again'] += 1",
                ]
            case 13:
                self.lines.append(f"{indent}if {e('bool', 2)}:")
                self.lines.append(f"{indent}    self.{rng.choice('ccdu')}.clear()")
            case 0:
                self.lines.append(f"{indent}self.p.append({e('int', 1)} % 1009)")
            case 1:
                self.lines.append(f"{indent}self.q.append({e('str', 1)}[:5])")
            case 2:
                self.lines.append(f"{indent}self.r.append({e(rng.choice(['float', 'int']), 1)})")
            case 3:
                self.lines += [
                    f"{indent}if len(self.p) > {rng.randrange(3, 9)}:",
                    f"{indent}    {rng.choice(['self.p', 'self.r'])}.clear()",
                    f"{indent}    self.q.replace([self.w.value, {e('str', 0)}])",
                ]
            case 4 if depth:
                self.lines.append(f"{indent}for at, each in enumerate(self.{rng.choice('pr')}):")
                self.lines.append(f"{indent}    self.z.value += each * at")
                self.block(depth, indent)
            case 5 if depth:
                self.lines.append(f"{indent}for text in self.q:")
                self.lines.append(f"{indent}    self.q.append(text[1:])")
                self.lines.append(f"{indent}    self.n.value += len(self.q)")
            case 6:
                self.lines.append(
                    f"{indent}self.p.replace([a + len(self.p) for a in self.p if a > {e('int', 0)} % 97])"
                )
            case _:
                super().statement(depth, indent)


class MethodDrawing(Drawing):
    """Generator of the source of a function that calls its own methods, and inherited ones."""

    head = (
        """
class Base(rh.KeyedProcessFunction):
    def echo(self, number, ctx):
        if number % 3 == 0:
            return
        for turn in range(3):
            self.n.value += turn
            yield Given(ctx.key, number, self.z.value, False, self.w.value, None, None)
            if number % 5 == turn:
                return
        self.w.value = ctx.key * "s"

    def bump(self, by=1):
        if by % 2:
            self.m.value = by
            return
        self.n.value += by

    def note(self, word, number=3):
        if not word:
            return Given(number, 1, 0.5, True, "none", None, None)
        self.v.value = word
        return Given(number % 3, len(word), 0.5, True, word, self.m.value, None)

    def share(self, whole):
        part = self.z.value if whole > 3 else 0.25
        return part / (whole * whole + 1)
"""
        + HEAD.replace("rh.KeyedProcessFunction", "Base")
        + """
    def echo(self, number, ctx):
        self.bump()
        yield from super().echo(number % 1009, ctx)
"""
    )

    def statement(self, depth: int, indent: str) -> None:
        rng, e = self.rng, self.expression
        match rng.randrange(9):
            case 0:
                self.lines.append(f"{indent}yield from self.echo({e('int', 1)}, ctx)")
            case 1:
                self.lines.append(f"{indent}self.bump({rng.choice(['', e('int', 1)])})")
            case 2:
                number = rng.choice(["", ", number=ctx.key"])
                self.lines.append(f"{indent}yield self.note({e('str', 1)}[:9]{number})")
            case 3:
                self.lines.append(f"{indent}self.z.value = self.share({e('int', 0)} % 97)")
            case _:
                super().statement(depth, indent)


def drawn_class(seed: int, drawing: type[Drawing] = Drawing) -> type[rh.KeyedProcessFunction]:
    """Return a function whose source is available."""
    text = drawing(Random(seed)).text()
    made: type[rh.KeyedProcessFunction] = class_of(text, f"<{drawing.__name__} {seed}>")
    return made


_LOCALS = {
    "n": "0", "m": "None", "z": "0.5", "w": "''", "v": "None", "g": "False", "e": "2", "h": "None",
}  # fmt: skip
"""Initial values of the local variables of plain functions, which have no state."""


def drawn_plain(seed: int, returns: Literal["records", "record", "bool", "choice"]) -> Any:
    """Return a function of one record, or of two for a choice, whose source is available: a drawn
    method, with local variables in place of state."""
    drawing = Drawing(Random(seed))
    lines = _without_state(drawing, _LOCALS)
    text = "\n".join(["def Function(row):", *lines]) + "\n"
    text = text.replace("ctx.timestamp", "row.at").replace("ctx.watermark", "row.at")
    text = re.sub(r"ctx.output.*", "yield Given(row.k, 1, row.x, row.f, row.s, row.b, row.t)", text)
    if returns == "record":
        text = text.replace("yield Given", "return Given")
    elif returns == "bool":
        given = drawing.expression("bool", 2).replace("self.", "").replace(".value", "")
        text = re.sub(r"yield Given.*", lambda found: f"return {given}", text)
        text = text.replace("ctx.timestamp", "row.at").replace("ctx.watermark", "row.at")
    elif returns == "choice":
        text = text.replace("def Function(row)", "def Function(kept, row)")
        text = re.sub(r"return$", "return kept", text, flags=re.MULTILINE)
        test = drawing.rng.choice(["kept.a % 7 < row.a % 9", "kept.x <= row.x", "kept.t != row.s"])
        text = re.sub(r"yield Given.*", f"return row if {test} else kept", text)
    return class_of(text, f"<drawn {returns} {seed}>")


def _without_state(drawing: Drawing, initial: Mapping[str, str]) -> list[str]:
    """Return the lines of a drawn method without state and timers. The local variables in place of
    state have these initial values."""
    drawing.method("    def process_element(self, row, ctx):", rows=True)
    lines = [f"    {name} = {given}" for name, given in initial.items()]
    for line in drawing.lines[1:]:
        if "ctx.timers" in line:
            continue
        line = line.removeprefix("    ")
        line = re.sub(r"self\.(\w)\.clear\(\)", lambda found: f"{found[1]} = {_LOCALS[found[1]]}", line)
        line = re.sub(r"self\.(\w)\.value", r"\1", line)
        lines.append(line.replace("ctx.key", "row.k"))
    return lines


@dataclass
class Rule:
    k: int
    s: str
    n: int
    x: float
    gone: bool
    at: int


_BROADCAST = _LOCALS | {
    "n": "self.numbers.get(row.s, 7)",
    "m": "self.numbers.get(row.t or 'm')",
    "z": "self.shares.get(row.f, 0.5)",
    "w": "self.words[row.k] if row.k in self.words else 'no word'",
    "v": "self.words.get(row.k)",
    "g": "row.s not in self.numbers",
    "e": "self.numbers['s'] if row.k == 1 and row.f else 2",
}
"""Initial values of the local variables of functions with broadcast state."""

_BROADCAST_HEAD = """
import math
class Function(rh.BroadcastProcessFunction):
    side_outputs = {"side": Side}
    numbers = rh.BroadcastState(str, int)
    words = rh.BroadcastState(int, str)
    shares = rh.BroadcastState(bool, float)

    def process_broadcast_element(self, rule: Rule, ctx):
        self.numbers[rule.s] = rule.n
        self.shares[rule.n % 2 == 0] = rule.x
        if rule.gone:
            self.words.pop(rule.k, None)
        else:
            self.words[rule.k] = rule.s

    def process_element(self, row: Drawn, ctx):
"""


def drawn_broadcast(seed: int) -> Any:
    """Return a function that reads broadcast state, whose source is available."""
    lines = _without_state(Drawing(Random(seed)), _BROADCAST)
    text = _BROADCAST_HEAD + "".join(f"    {line}\n" for line in lines)
    return class_of(text, f"<drawn broadcast {seed}>")


def drawn_rules(seed: int, count: int) -> list[dict[str, Any]]:
    rng = Random(seed)
    return [
        {
            "k": rng.randrange(3),
            "s": rng.choice(["s", "m", "l", ""]),
            "n": rng.randrange(-5, 9),
            "x": rng.choice([rng.uniform(-9, 9), -0.0, float("nan")]),
            "gone": rng.random() < 0.3,
            "at": 9 * at,
        }
        for at in range(count)
    ]


def class_of(text: str, file: str) -> Any:
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {
        "rh": rh, "math": math, "Given": Given, "Side": Side, "SIZES": SIZES, "NAMES": NAMES, "KNOWN": KNOWN, "STEPS": STEPS, "grade": grade, "share": share,
        "Drawn": Drawn, "Rule": Rule, "__name__": __name__,
    }  # fmt: skip
    exec(compile(text, file, "exec"), names)
    return names["Function"]


def drawn_rows(seed: int, count: int) -> list[dict[str, Any]]:
    rng = Random(seed)
    return [
        {
            "k": rng.randrange(3),
            "a": rng.choice([rng.randrange(-5, 9), rng.randrange(1 << 40)]),
            "b": rng.choice([None, rng.randrange(9)]),
            "x": rng.choice([rng.uniform(-9, 9), 0.0, -0.0, float("nan"), float("inf"), 3.0]),
            "y": rng.choice([None, 0.0, rng.random()]),
            "f": rng.random() < 0.5,
            "s": rng.choice(["s", "m", "l", "", "long text"]),
            "t": rng.choice([None, "s", ""]),
            "at": 3 * at,
        }
        for at in range(count)
    ]
