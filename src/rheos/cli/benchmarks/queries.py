"""The benchmarks grep, grouping and tumbling windows in SQL."""

from __future__ import annotations

from rheos.cli.benchmarks import grep

GREP = f"SELECT * FROM lines WHERE line RLIKE '{grep.PATTERN}'".replace("\\", "\\\\")

GROUPING = "SELECT k, COUNT(*) AS count, SUM(v) AS sum, MAX(t) AS t FROM measurements GROUP BY k"

TUMBLING = """
    SELECT k, window_start, window_end, COUNT(*) AS count, SUM(v) AS sum, MAX(v) AS max, MAX(t) AS t
    FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(at), INTERVAL '10' SECONDS))
    GROUP BY k, window_start, window_end
"""
