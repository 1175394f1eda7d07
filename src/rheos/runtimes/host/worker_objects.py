"""Objects that are loaded once in each worker process, for all functions and subtasks there."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from rheos.core.errors import ProgramError

T = TypeVar("T")

_loaded: dict[str, Any] = {}
_lock = threading.Lock()


class LoadOnce(Generic[T]):
    """An object that is loaded at its first use in a process. See `load_once`."""

    def __init__(self, loader: Callable[[], T]) -> None:
        if not callable(loader):
            raise ProgramError(
                f"load_once() takes a function, not {loader!r}",
                hint="write model = rh.load_once(load_model), and call model() to use it",
            )
        self._loader = loader
        self._id = uuid.uuid4().hex
        """Identity that is pickled with the program: all copies in a process share one object."""

    def __call__(self) -> T:
        """Return the loaded object. The first call in a process loads it, and others wait. If the
        loader raises an error, raise it; the next call tries again."""
        try:
            found: T = _loaded[self._id]
            return found
        except KeyError:
            pass
        with _lock:
            if self._id not in _loaded:
                _loaded[self._id] = self._loader()
            found = _loaded[self._id]
            return found

    def __deepcopy__(self, memo: object) -> LoadOnce[T]:
        return self


def load_once(loader: Callable[[], T]) -> LoadOnce[T]:
    """Return an object that is loaded once in each worker process, at its first use, such as a model.

    ```python
    model = rh.load_once(lambda: joblib.load("model.joblib"))

    def score(batch: pl.DataFrame) -> pl.DataFrame:
        return batch.with_columns(score=model().predict(batch["text"]))
    ```

    In the continuous runtime a process is a slot of an attempt: all operators of the slot share the
    object. In batch, Spark's processes serve one task after the other.

    Args:
        loader: Loads the object, in the worker.

    Returns:
        A function without arguments that returns the object.
    """
    return LoadOnce(loader)
