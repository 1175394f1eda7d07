"""What the source paper measured with Flink, on its machines: drawn beside what is measured here.

These are figures of other hardware, another language and programs that do a little more or less. They
say where Flink stood in its own paper, and not how fast Flink would be on the machine of the page.
"""

GREP_PER_CORE = 1_500_000
GROUPING_PER_CORE = 720_000
"""With a shuffle by key."""
FULL_LOAD_P50_MS = 26
FULL_LOAD_P99_MS = 51
CHECKPOINT_COST = (0.02, 0.04)
"""The share of throughput that checkpoints every 5 s took: without state, and with."""
