"""Probes of SQL run or are refused at their place: `scripts/sql_coverage.py` counts them."""

from __future__ import annotations

import pytest

from scripts.sql_coverage import judged, report
from tests.sql.probes import PROBES

WHOLE = ("VALUES", "groups", "set operations", "pivots", "conditions")
"""Features all of whose probes run in each quick run."""


def test_the_first_probes_of_each_feature_are_not_wrong() -> None:
    faults = []
    for feature, probes in PROBES.items():
        for probe in probes if feature in WHOLE else probes[:2]:
            verdict, why = judged(probe)
            if verdict == "wrong" or (verdict == "refused" and feature in WHOLE):
                faults.append(f"{feature}: {probe.sql} is {verdict}: {why}")
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_no_probe_is_wrong() -> None:
    assert report(PROBES, refused=False) == 0
