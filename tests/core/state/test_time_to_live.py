"""State that expires: expired entries are not visible in any backend, and are removed before long."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from rheos.core.errors import ProgramError, UnrestorableError
from rheos.core.graph.state import ListState, MapState, StateDeclaration, TimeToLive, ValueState
from rheos.core.state.stamps import list_codec, value_codec
from tests.core.state.keyed_jobs import MEMORY, ROCKSDB, Job, declared


@dataclass
class Cart:
    items: list[str] = field(default_factory=list)


# --- against dicts ------------------------------------------------------------------------------------

BACKENDS = st.sampled_from([MEMORY, ROCKSDB])
KEYS = [f"user {i}" for i in range(3)]
ITEMS = ["x", "y"]
NUMBERS = st.integers(0, 3)
TTL_MS = 4
WRITTEN = TimeToLive("4ms")
USED = TimeToLive("4ms", renewed_on="read_and_write")
BY_CLOCK = TimeToLive("4ms", time="processing_time")


class Model:
    """Model of one key: pairs of the last update and the value, in dicts."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[int, Any]] = {}
        self.maps: dict[str, dict[str, tuple[int, Any]]] = {"counts": {}, "carts": {}}
        self.log: list[tuple[int, int]] = []
        self.used: list[tuple[int, int]] = []

    def look(self, kept: dict[str, tuple[int, Any]], name: str, now: int, renew: bool) -> Any:
        """Return the value, or None. An expired value is removed for good."""
        if name in kept and kept[name][0] + TTL_MS <= now:
            del kept[name]
        if name not in kept:
            return None
        if renew:
            kept[name] = (max(now, kept[name][0]), kept[name][1])
        return kept[name][1]

    def look_at_log(self, now: int) -> list[int]:
        self.log = [pair for pair in self.log if pair[0] + TTL_MS > now]
        return [value for _, value in self.log]

    def use(self, now: int) -> list[int]:
        living = [pair for pair in self.used if pair[0] + TTL_MS > now]
        self.used = [(max(now, stamp), value) for stamp, value in living]
        return [value for _, value in self.used]


class Against(RuleBasedStateMachine):
    """Compare any sequence of uses and pauses with dicts, while sweeps and full snapshots remove
    expired entries. Calls are out of order, up to 4 ms ahead of the watermark."""

    keys = st.sampled_from(KEYS)
    items = st.sampled_from(ITEMS)

    @initialize(backend=BACKENDS, parallelism=st.integers(1, 2))
    def begin(self, backend: str, parallelism: int) -> None:
        self.folder = tempfile.mkdtemp()
        states = declared(
            n=ValueState(int, default=0, ttl=WRITTEN),
            seen=ValueState(int | None, ttl=USED),
            cart=ValueState(Cart, default=Cart(), ttl=WRITTEN),
            clocked=ValueState(int, ttl=BY_CLOCK),
            log=ListState(int, ttl=WRITTEN),
            used=ListState(int, ttl=USED),
            counts=MapState(str, int, ttl=WRITTEN),
            carts=MapState(str, Cart, ttl=USED),
        )
        self.job = Job(Path(self.folder), states, backend, parallelism, memory_bytes=6 * 1024)
        self.job.now_ms = self.job.passed_ms = 100
        self.model = {key: Model() for key in KEYS}

    def teardown(self) -> None:
        if hasattr(self, "job"):
            self.job.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def now(self) -> int:
        return self.job.now_ms

    # --- time -------------------------------------------------------------------------------------

    @rule(by_ms=st.integers(1, 3), ahead_ms=st.integers(0, 4))
    def pass_time(self, by_ms: int, ahead_ms: int) -> None:
        self.job.passed_ms += by_ms
        self.job.now_ms = self.job.passed_ms + ahead_ms
        self.job.clock.advance(by_ms * 1000)

    @rule(ahead_ms=st.integers(0, 4))
    def call_at(self, ahead_ms: int) -> None:
        self.job.now_ms = self.job.passed_ms + ahead_ms

    # --- uses -------------------------------------------------------------------------------------

    @rule(key=keys, item=items, n=NUMBERS)
    def write(self, key: str, item: str, n: int) -> None:
        here, model, now = self.job[key], self.model[key], self.now
        here.n.value = here.seen.value = here.clocked.value = n
        model.values["n"] = model.values["seen"] = (now, n)
        model.values["clocked"] = (self.job.clock.now_ms(), n)
        here.log.append(n)
        here.used.append(n)
        model.log.append((now, n))
        model.used.append((now, n))
        here.counts[item] = n
        here.carts[item] = Cart([str(n)])
        model.maps["counts"][item] = (now, n)
        model.maps["carts"][item] = (now, Cart([str(n)]))

    @rule(key=keys)
    def clear(self, key: str) -> None:
        here, model = self.job[key], self.model[key]
        here.n.clear()
        model.values.pop("n", None)
        here.seen.value = None
        model.values["seen"] = (self.now, None)

    @rule(key=keys, item=items, n=NUMBERS)
    def change_in_place(self, key: str, item: str, n: int) -> None:
        here, model = self.job[key], self.model[key]
        here.cart.value.items.append(str(n))
        if model.look(model.values, "cart", self.now, renew=False) is None:
            model.values["cart"] = (self.now, Cart())
        model.values["cart"][1].items.append(str(n))
        for cart in (
            here.carts.get(item),
            model.look(model.maps["carts"], item, self.now, renew=True),
        ):
            if cart is not None:
                cart.items.append("more")

    @rule(key=keys, numbers=st.lists(NUMBERS, max_size=3))
    def replace(self, key: str, numbers: list[int]) -> None:
        self.job[key].log.replace(numbers)
        self.model[key].log = [(self.now, number) for number in numbers]

    @rule(key=keys, item=items)
    def remove(self, key: str, item: str) -> None:
        counts = self.model[key].maps["counts"]
        if self.model[key].look(counts, item, self.now, renew=False) is None:
            with pytest.raises(KeyError):
                del self.job[key].counts[item]
        else:
            del self.job[key].counts[item], counts[item]

    # --- what is seen -----------------------------------------------------------------------------

    @rule()
    def look(self) -> None:
        for key in KEYS:
            self._same(self.job, key)

    @rule(key=keys, item=items)
    def look_at_one(self, key: str, item: str) -> None:
        here, model = self.job[key], self.model[key]
        for name, renew in (("counts", False), ("carts", True)):
            wanted = model.look(model.maps[name], item, self.now, renew)
            assert getattr(here, name).get(item) == wanted
            assert (item in getattr(here, name)) == (wanted is not None)

    def _same(self, job: Job, key: str) -> None:
        here, model, clock_ms = job[key], self.model[key], self.job.clock.now_ms()
        values = model.values
        assert here.n.value == (model.look(values, "n", self.now, renew=False) or 0)
        assert here.seen.value == model.look(values, "seen", self.now, renew=True)
        assert here.clocked.value == model.look(values, "clocked", clock_ms, renew=False)
        log = model.look_at_log(self.now)
        assert (list(here.log), len(here.log)) == (log, len(log))
        assert list(here.used) == model.use(self.now)
        for name, renew in (("counts", False), ("carts", True)):
            wanted = {i: model.look(model.maps[name], i, self.now, renew) for i in ITEMS}
            wanted = {item: value for item, value in wanted.items() if value is not None}
            found = getattr(here, name)
            assert dict(found.items()) == wanted
            assert (set(found), len(found)) == (set(wanted), len(wanted))

    # --- pauses -----------------------------------------------------------------------------------

    @rule()
    def checkpoint(self) -> None:
        self.job.checkpoint()

    @rule()
    def lose_a_snapshot(self) -> None:
        self.job.lose_a_snapshot()

    @rule(parallelism=st.integers(1, 3), backend=BACKENDS, by_savepoint=st.booleans())
    def move(self, parallelism: int, backend: str, by_savepoint: bool) -> None:
        self.job.move(parallelism, backend, by_savepoint=by_savepoint)
        self.look()


TestAgainst = Against.TestCase
TestAgainst.settings = settings(max_examples=12, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize("backend", [MEMORY, ROCKSDB])
def test_a_long_sequence_agrees_with_dicts(backend: str) -> None:
    """Check a denser sequence than above: most reads find something that has just expired, or is about
    to."""
    rng, walk = Random(7), Against()
    walk.begin(backend=backend, parallelism=1)
    for _ in range(700):
        key, item, n = rng.choice(KEYS), rng.choice(ITEMS), rng.randrange(4)
        match rng.randrange(12):
            case 0 | 1 | 2:
                walk.write(key=key, item=item, n=n)
            case 3:
                walk.change_in_place(key=key, item=item, n=n)
            case 4 | 5:
                walk.pass_time(by_ms=rng.randrange(1, 3), ahead_ms=rng.randrange(4))
            case 6 | 7:
                walk.call_at(ahead_ms=rng.randrange(4))
            case 8:
                walk.remove(key=key, item=item)
            case 9:
                walk.look_at_one(key=key, item=item)
            case 10:
                walk.look()
            case _ if n == 0:
                walk.move(parallelism=rng.randrange(1, 3), backend=backend, by_savepoint=True)
            case _:
                walk.checkpoint()
    walk.teardown()


# --- what is kept -------------------------------------------------------------------------------------


def stored_rows(job: Job) -> int:
    """Return the number of rows that a checkpoint would have; on disk, by a savepoint that leaves out
    nothing."""
    passed, job.passed_ms = job.passed_ms, 0
    written = job.savepoint()
    job.passed_ms = passed
    return sum(handle.rows for handle in written.entry.handles)


@pytest.mark.parametrize("backend", [MEMORY, ROCKSDB])
@pytest.mark.parametrize(
    "state",
    [ValueState(int, ttl="100ms"), ListState(int, ttl="100ms"), MapState(str, int, ttl="100ms")],
    ids=lambda state: state.kind,
)
def test_state_of_changing_keys_is_bounded(
    tmp_path: Path, backend: str, state: StateDeclaration
) -> None:
    """Check 200 new keys every 10 ms, each with an entry that lives for 100 ms."""
    job = Job(tmp_path, declared(state=state), backend, memory_bytes=64 * 1024)
    [task] = job.subtasks
    scope, handle = task.backend.scope, task.handles["state"]
    stored = []
    for now_ms in range(0, 500, 10):
        job.now_ms = now_ms
        keys = [f"{now_ms}-{n}" for n in range(200)]
        task.backend.prepare(keys)
        for n, scope.key in enumerate(keys):
            if isinstance(state, ValueState):
                handle.value = n
            elif isinstance(state, ListState):
                handle.append(n)
            else:
                handle["x"] = n
        job.passed_ms = scope.passed_ms = now_ms
        if now_ms % 50 == 0:
            job.checkpoint()
            stored.append(stored_rows(job))
    assert stored[1] == 6 * 200, "nothing goes before its time"
    assert max(stored) <= 20 * 200, "what was written within two times to live"
    job.close()


@pytest.mark.parametrize("backend", [MEMORY, ROCKSDB])
def test_a_savepoint_leaves_out_expired_entries_and_changes_nothing(
    tmp_path: Path, backend: str
) -> None:
    states = declared(
        value=ValueState(int, ttl="10ms"),
        log=ListState(int, ttl="10ms"),
        counts=MapState(str, int, ttl="10ms"),
        kept=ValueState(int, default=0),
    )
    job = Job(tmp_path, states, backend)
    for at, key in ((0, "early"), (5, "late")):
        job.now_ms = at
        here = job[key]
        here.value.value, here.kept.value = at, at
        here.log.append(at)
        here.counts["x"] = at
    job.now_ms = job.passed_ms = 10
    written = job.savepoint()
    rows = {handle.state: handle.rows for handle in written.entry.handles}
    assert (rows["value"], rows["log"], rows["counts"], rows["kept"]) == (1, 1, 1, 2)
    # A call that comes after all, at an earlier time: nothing has been removed.
    job.now_ms, job.passed_ms = 9, 0
    here = job["early"]
    assert (here.value.value, list(here.log), here.counts["x"], here.kept.value) == (0, [0], 0, 0)
    job.close()


def test_a_full_snapshot_in_memory_leaves_out_expired_entries(tmp_path: Path) -> None:
    job = Job(tmp_path, declared(value=ValueState(int, ttl="10ms")), MEMORY)
    for n in range(1000):
        job[f"user {n}"].value.value = n
    job.now_ms = job.passed_ms = 10
    job["the last"].value.value = 1
    written = job.checkpoint()
    assert [handle.rows for handle in written.entry.handles if handle.state == "value"] == [1]
    job.close()


@pytest.mark.parametrize("backend", [MEMORY, ROCKSDB])
def test_renewed_entries_are_not_swept(tmp_path: Path, backend: str) -> None:
    """Check entries that are old on disk, but were written again in memory."""
    states = declared(value=ValueState(int, ttl="10ms"), counts=MapState(str, int, ttl="10ms"))
    job = Job(tmp_path, states, backend)
    keys = [f"user {n}" for n in range(600)]
    for key in keys:
        job[key].value.value = job[key].counts["x"] = 1
    job.checkpoint()
    job.now_ms = 12
    for key in keys[::2]:
        job[key].value.value = job[key].counts["x"] = 2
    job.passed_ms = 12
    for _ in range(10):
        job[keys[0]]  # Sweeps go on between calls.
    for key in keys:
        here, wanted = job[key], 2 if keys.index(key) % 2 == 0 else None
        assert (here.value.value, here.counts.get("x")) == (wanted, wanted)
    assert stored_rows(job) == 600, "a value and an entry of every other key"
    job.close()


# --- declared and stored ------------------------------------------------------------------------------


def test_a_time_to_live_is_checked_at_its_line() -> None:
    for ttl, what in (
        ("soon", "'soon' is not a duration"),
        (TimeToLive("0s"), "must be greater than 0"),
        (TimeToLive("1h", time="wall_clock"), "time='wall_clock' is not known"),  # type: ignore[arg-type]
        (TimeToLive("1h", renewed_on="read"), "renewed_on='read' is not known"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ProgramError, match=what) as caught:
            ValueState(int, ttl=ttl)
        assert caught.value.site is not None
        assert caught.value.site.file == __file__
    assert ValueState(int, ttl="1h").ttl == TimeToLive("1h")


def test_pickled_values_expire_too(tmp_path: Path) -> None:
    job = Job(
        tmp_path, declared(value=ValueState(object, ttl="10ms"), log=ListState(object, ttl="10ms"))
    )
    job["user"].value.value = {"any": Path("thing")}
    job["user"].log.append(Path("x"))
    job.move(2, ROCKSDB)
    assert job["user"].value.value == {"any": Path("thing")}
    assert list(job["user"].log) == [Path("x")]
    job.now_ms = 10
    assert (job["user"].value.value, list(job["user"].log)) == (None, [])
    job.close()


@pytest.mark.parametrize("cut", [0, 3, 4, 8, 11, 12, 20])
def test_truncated_entries_are_refused(cut: int) -> None:
    one, many = value_codec("n", str, expires=True), list_codec("n", str, expires=True)
    [value], [segment] = one.encode([(5, "text")], ["k"]), many.encode([[(5, "a"), (6, "b")]], ["k"])
    assert one.decode(value) == (5, "text")
    assert many.decode(segment) == [(5, "a"), (6, "b")]
    for codec, data in ((one, value), (many, segment)):
        if cut < len(data):
            with pytest.raises(UnrestorableError):
                codec.decode(data[:cut])
    with pytest.raises(UnrestorableError, match="has 1 elements, but 2 update times"):
        many.decode(segment[:20] + b"\x91\xa1a")
