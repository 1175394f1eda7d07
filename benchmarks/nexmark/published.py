"""What the authors of the benchmark measured with Flink, on their machines.

Both tables are those of https://github.com/nexmark/nexmark. README.md has Flink 1.13: eight workers of
one slot, on at least three machines of 8 cores and 32 GB, RocksDB on SSDs, 100 million events.
GUIDE_V2.md has Flink 2.0: the same eight slots, on at least four machines of 16 cores and 32 GB,
RocksDB, 50 million events after 150 million of warm-up. Both count the processor time of the workers.
"""

FLINK_1_13 = {
    "q0": 155_020,
    "q1": 157_940,
    "q2": 175_210,
    "q3": 152_120,
    "q4": 34_330,
    "q5": 22_140,
    "q7": 12_330,
    "q8": 146_140,
    "q9": 14_240,
    "q10": 57_810,
    "q11": 39_700,
    "q12": 75_670,
    "q13": 130_730,
    "q14": 161_230,
    "q15": 72_420,
    "q16": 18_650,
    "q17": 116_800,
    "q18": 53_700,
    "q19": 44_040,
    "q20": 18_980,
    "q21": 98_490,
    "q22": 129_960,
}
"""Events a second and core, as published."""

_EVENTS = 50_000_000
_CORES_AND_SECONDS = {
    "q0": (7.0, 18.875),
    "q1": (7.24, 17.462),
    "q2": (7.13, 16.927),
    "q3": (8.69, 26.250),
    "q4": (12.33, 143.745),
    "q5": (12.35, 54.324),
    "q7": (11.45, 190.508),
    "q8": (12.83, 23.994),
    "q9": (10.86, 334.395),
    "q10": (6.81, 55.290),
    "q11": (9.29, 116.856),
    "q12": (10.03, 25.656),
    "q13": (7.97, 33.326),
    "q14": (7.83, 24.660),
    "q15": (8.16, 36.419),
    "q16": (10.77, 102.608),
    "q17": (10.15, 30.599),
    "q18": (11.77, 64.954),
    "q19": (13.09, 89.471),
    "q20": (10.98, 256.461),
    "q21": (7.81, 43.492),
    "q22": (7.7, 30.725),
}
FLINK_2_0 = {
    query: _EVENTS / (cores * seconds) for query, (cores, seconds) in _CORES_AND_SECONDS.items()
}
"""The same, from the cores that were busy and the time that it took."""
