"""Moving jobs from other systems to Rheos: their positions and their state become a savepoint.

    consumer group    ─ committed offsets ─────────────────────────────┐
    Spark checkpoint  ─ offset log, commit log ─ positions, watermark ─┤
                      ─ Spark's state reader ─ rows of each operator ──┴─ NewSavepoint ─ savepoint

Everything here reads the other system, and never changes it.
"""
