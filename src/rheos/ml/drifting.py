"""`drift`: rows of a key at which the distribution of its values changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from rheos.api.keyed_stream import KeyedStream
from rheos.api.streams import DataStream
from rheos.core.errors import ProgramError
from rheos.core.graph.functions import KeyedContext, KeyedProcessFunction
from rheos.core.site import call_site, located
from rheos.ml.feature_columns import check_column
from rheos.ml.states import with_state


class Detector(Protocol):
    """The interface of River's drift detectors. A detector restarts by itself after a drift."""

    drift_detected: bool

    def update(self, x: float) -> Any: ...


@dataclass
class PageHinkley:
    """Detector of a rise of the mean, by the test of Page and Hinkley. The detector adds up the
    deviations of values from the mean so far, minus `delta`. It reports drift when the sum exceeds its
    minimum by `threshold`.

    ```python
    rh.ml.drift(errors.key_by("city"), lambda: rh.ml.PageHinkley(threshold=20.0), on="error")
    ```
    """

    delta: float = 0.005
    threshold: float = 50.0
    least_rows: int = 30
    """Minimum number of values before drift is reported."""
    drift_detected: bool = False
    rows: int = 0
    mean: float = 0.0
    total: float = 0.0
    least: float = 0.0

    def update(self, x: float) -> None:
        """Add a value, and set `drift_detected`.

        Args:
            x: The value.
        """
        if self.drift_detected:
            self.rows, self.mean, self.total, self.least = 0, 0.0, 0.0, 0.0
        self.rows += 1
        self.mean += (x - self.mean) / self.rows
        self.total += x - self.mean - self.delta
        self.least = min(self.least, self.total)
        self.drift_detected = self.rows >= self.least_rows and self.total - self.least > self.threshold


class _Drifts(KeyedProcessFunction):
    detector: Any
    """Declared state, set by `with_state`."""

    def __init__(self, make: Callable[[], Detector], on: str, columns: tuple[str, ...]) -> None:
        self._make = make
        self._on = on
        self._columns = columns

    def process_element(self, record: Any, ctx: KeyedContext) -> Iterator[dict[str, Any]]:
        detector = self.detector.value
        if detector is None:
            detector = self.detector.value = self._make()
        value = getattr(record, self._on)
        if value is None:
            return
        detector.update(value)
        if detector.drift_detected:
            yield {name: getattr(record, name) for name in self._columns}


def drift(stream: KeyedStream, make: Callable[[], Detector] = PageHinkley, *, on: str) -> DataStream:
    """Emit the rows at which a detector finds that the values of their key have drifted.

    ```python
    errors = scored.with_columns(error=(col("minutes") - col("prediction")).abs())
    rh.ml.drift(errors.key_by("city"), on="error")
    ```

    Args:
        stream: The rows, by key.
        make: Creates a detector: `rh.ml.PageHinkley`, or one of River (`river.drift.ADWIN`).
        on: A column of numbers, such as a model's error. Nulls are skipped.

    Returns:
        The stream of these rows.

    Raises:
        ProgramError: `make` does not create a detector.
        SchemaError: The column does not exist or has no numbers.
    """
    with located(call_site(), "drift"):
        check_column(stream.schema, on, "drift")
        made = make()
        if not (hasattr(made, "update") and hasattr(made, "drift_detected")):
            raise ProgramError(
                f"{type(made).__name__} is not a drift detector",
                hint="use rh.ml.PageHinkley, or a River detector, which has update(x) and "
                "drift_detected",
            )
    columns = tuple(stream.schema.names)
    fn = with_state(_Drifts, "detector", made)(make, on, columns)
    return stream.process(fn, returns=stream.schema)
