"""Late rows of either side go to side outputs of their own (`operators/late.py`)."""

LATE = ("late_left", "late_right")
"""The side outputs, by port."""
