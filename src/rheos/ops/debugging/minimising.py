"""Delta debugging: the fewest items of a sequence that still show something. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")


def minimised(
    items: Sequence[_Item],
    shows: Callable[[Sequence[_Item]], bool],
    is_over: Callable[[], bool] = lambda: False,
) -> list[_Item]:
    """Remove items as long as the rest shows the same.

    ```python
    minimised([3, 1, 4, 1, 5], lambda kept: 4 in kept and 5 in kept)  # [4, 5]
    ```

    Args:
        items: The items, which show it.
        shows: Whether a subsequence shows it. It is called with each subsequence once, up to
            len(items)² times; far less often if few items matter.
        is_over: Whether to return what has been found so far.

    Returns:
        A subsequence that shows it. Unless time was up, each single item in it is needed.
    """
    kept = list(items)
    size = max(len(kept) // 2, 1)
    while kept:
        before = len(kept)
        # From the end: what follows the last item that matters goes first.
        end = before
        while end > 0:
            if is_over():
                return kept
            begin = max(end - size, 0)
            without = kept[:begin] + kept[end:]
            if shows(without):
                kept = without
            end = begin
        if size > 1:
            size = max(min(size, len(kept)) // 2, 1)
        elif len(kept) == before:
            break
    return kept
