"""Base class of users' watermark generators."""

from __future__ import annotations

from typing import Any


class WatermarkGenerator:
    """A generator of watermarks, split by split: `rh.Watermark.generator(Mine(), on="at")`.

    ```python
    class Trailing(rh.WatermarkGenerator):
        latest = 0

        def on_event(self, record: Event, timestamp: int) -> int | None:
            self.latest = max(self.latest, timestamp)
            return self.latest - (60_000 if record.slow else 1_000)
    ```

    Each split has its own copy of the generator. Checkpoints store the copy's attributes, so they must
    be numbers, strings, or lists and dicts of these. Lateness depends on the data alone as long as the
    generator uses nothing else.
    """

    def on_event(self, record: Any, timestamp: int) -> int | None:
        """Return the watermark after a record. The source calls it for each record of the split, in
        order.

        Args:
            record: The record: an instance of the annotated dataclass, or a row with its columns.
            timestamp: Its event time, in ms since the epoch.

        Returns:
            The watermark, in ms since the epoch: no record of that time or earlier will arrive. None
            keeps the current one. A watermark never decreases.
        """
        return None

    def on_periodic(self, now_ms: int) -> int | None:
        """Return the watermark at a processing time. The source calls it every `period=`, but not in
        batch.

        The result depends on when rows arrive, and so does the lateness of rows.

        Args:
            now_ms: Processing time, in ms since the epoch.

        Returns:
            The watermark, in ms since the epoch; None keeps the current one.
        """
        return None
