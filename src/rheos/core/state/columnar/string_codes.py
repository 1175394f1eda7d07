"""Strings as numbers: each distinct string of an operator is stored and compared by its code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Codes: TypeAlias = npt.NDArray[np.int32]

NO_TEXT = -1
"""Code of a null."""

_FEW = 1 << 16


class StringCodes:
    """Codes from 0 on, in the order of arrival. Two strings are equal if their codes are."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []
        self._fixed = 0
        self._enough = _FEW
        self.generation = 0
        """Number of times that strings received new codes."""

    def __len__(self) -> int:
        return len(self._texts)

    def code(self, text: str) -> int:
        found = self._codes.get(text)
        if found is None:
            found = self._codes[text] = len(self._texts)
            self._texts.append(text)
        return found

    def codes(self, texts: Iterable[str | None]) -> Codes:
        code = self.code
        return np.array([NO_TEXT if text is None else code(text) for text in texts], np.int32)

    def of_column(self, column: pa.Array) -> Codes:
        """Return the code of each value of a column of strings."""
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        known = self.codes(encoded.dictionary.to_pylist())
        indices = encoded.indices
        if indices.null_count:
            places = indices.fill_null(len(known)).to_numpy()
            known = np.append(known, np.int32(NO_TEXT))
        else:
            places = indices.to_numpy()
        found: Codes = known.take(places)
        return found

    def text(self, code: int) -> str | None:
        return None if code < 0 else self._texts[code]

    def array(self, codes: Codes) -> pa.Array:
        """Return the strings of these codes as a column."""
        used, places = np.unique(codes, return_inverse=True)
        return pa.array([self.text(code) for code in used.tolist()], pa.string()).take(pa.array(places))

    def frozen(self) -> Sequence[str]:
        """Return the strings by code. The current ones keep their positions in it."""
        return self._texts

    # --- release of strings ---------------------------------------------------------------------------

    def fix(self) -> None:
        """Make the codes of all current strings permanent."""
        self._fixed = len(self._texts)

    def too_many(self) -> bool:
        """Return whether to check which strings are still in use."""
        return len(self._texts) > self._enough

    def keep(self, used: Sequence[Codes]) -> list[Codes]:
        """Release all strings except fixed and used ones, and return the new codes of `used`."""
        there = [np.unique(codes[codes >= self._fixed]) for codes in used]
        left = np.unique(np.concatenate(there)) if there else np.empty(0, np.int32)
        new = np.full(len(self._texts) + 1, NO_TEXT, np.int32)  # The last one is the null's.
        new[: self._fixed] = np.arange(self._fixed)
        new[left] = self._fixed + np.arange(len(left))
        self._texts = self._texts[: self._fixed] + [self._texts[code] for code in left.tolist()]
        self._codes = {text: code for code, text in enumerate(self._texts)}
        self._enough = max(_FEW, 2 * len(self._texts))
        self.generation += 1
        return [new[codes] for codes in used]
