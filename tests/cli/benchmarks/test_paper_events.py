"""The expected results of the experiments' events are known, and traces of a defect are found."""

from __future__ import annotations

import json
from collections import Counter

import rheos as rh
from benchmarks.paper import ads, shop, yahoo
from benchmarks.paper.yahoo_program import views_by_campaign
from rheos.cli.benchmarks.state_machine import INITIAL, RULES

SHOP, EVENTS = shop.Shop(users=37, seed=5), 6_000
PACE = ads.Pace(began_ms=1_700_000_003_000, rate_per_s=2_000)


def by_plain_rules() -> list[shop.Alert]:
    alerts, states = [], dict.fromkeys(range(SHOP.users), INITIAL)
    for user, number, kind in SHOP.events(0, EVENTS).rows():
        following = RULES.get((states[user], kind))
        if following is None:
            alerts.append((user, number, states[user], kind))
        states[user] = following or INITIAL
    return alerts


def test_planted_alerts_match_the_plain_rules() -> None:
    found = by_plain_rules()
    assert len(found) > 20
    verdict = shop.judge(found, SHOP.planted(EVENTS))
    assert verdict == shop.ShopVerdict(len(found), len(found), 0, 0, 0, 0)
    assert verdict.ok


def test_events_do_not_depend_on_block_boundaries() -> None:
    whole = SHOP.events(0, 500)
    assert whole.slice(123, 200).equals(SHOP.events(123, 200))
    values, partitions = shop.payloads(7, 50, 4, users=37, seed=5)
    assert [json.loads(value) for value in values] == SHOP.events(7, 50).to_dicts()
    assert partitions == [json.loads(value)["user"] % 4 for value in values]


def test_lost_duplicated_false_and_swapped_alerts_are_found() -> None:
    planted = SHOP.planted(EVENTS)
    found = by_plain_rules()
    first = found[0]
    again = next(at for at in range(1, len(found)) if found[at][0] == first[0])
    wrong = {
        "missing": found[1:],
        "doubled": [*found[:1], *found],
        "false": [*found, (first[0], 10**9, *first[2:])],
        "out_of_order": [found[again], *found[1:again], first, *found[again + 1 :]],
    }
    for kind, alerts in wrong.items():
        verdict = shop.judge(alerts, planted)
        assert getattr(verdict, kind) > 0, kind
        assert not verdict.ok


def test_views_are_counted_as_if_one_by_one() -> None:
    values, partitions = ads.payloads(0, 30_000, 3, began_ms=PACE.began_ms, rate_per_s=PACE.rate_per_s)
    assert partitions[:4] == [0, 1, 2, 0]
    campaign, own = ads.campaign_of_ad(), Counter[tuple[str, int]]()
    for event in map(json.loads, values):
        if event["event_type"] == "view":
            at = int(event["event_time"])
            own[campaign[event["ad_id"]], at - at % ads.WINDOW_MS] += 1
    made = ads.counted(30_000, PACE)
    assert own == made
    assert ads.judge(own, made, 30_000) == ads.AdsVerdict(30_000, sum(own.values()), len(own), 0)
    assert len({window for _, window in own}) == 2


def test_the_program_counts_all_generated_rows() -> None:
    env = rh.Environment(2, runtime="simulated")
    made, blocks = yahoo.Made(ads.Pace(1_700_000_009_900, 3e6)), 10
    views_by_campaign(env.from_source(made.source(blocks))).collect("counts")
    counts: Counter[tuple[str, int]] = Counter()
    for row in env.execute("views").collected["counts"].to_pylist():
        counts[row["campaign"], row["window"]] = max(
            row["views"], counts[row["campaign"], row["window"]]
        )
    events = blocks * yahoo.CORES * yahoo.BLOCK_ROWS
    assert len({window for _, window in counts}) == 2
    assert ads.judge(counts, ads.counted(events, made.pace), events).ok


def test_wrong_missing_and_extra_counts_are_found() -> None:
    made = ads.counted(5_000, PACE)
    lost, doubled, foreign, gone = made.copy(), made.copy(), made.copy(), made.copy()
    some = next(iter(made))
    lost[some] -= 1
    doubled[some] += 1
    foreign["nobody", 0] = 1
    del gone[some]
    for wrong in (lost, doubled, foreign, gone):
        assert ads.judge(wrong, made, 5_000).wrong == 1
