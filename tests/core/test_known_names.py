"""Errors for unknown names list the names that exist, similar ones first."""

from __future__ import annotations

import copy
import pickle

import pytest

from rheos.core.errors import ProgramError, UnknownKeyError
from rheos.core.known_names import NamedItems, meant, names_hint


def test_the_hint_has_similar_names_and_then_all_names() -> None:
    assert names_hint("pirce", ["user", "price"], "the columns are") == (
        "did you mean 'price'? the columns are user, price"
    )
    assert names_hint("PRICE", ["price"], "they are") == "did you mean 'price'? they are price"
    assert names_hint("zzz", [], "they are") == "they are none"
    assert names_hint("zzz", [], "the columns here are") == "there are no columns here"
    assert meant("zzz", ["price"]) == ""


def test_a_long_list_is_cut() -> None:
    hint = names_hint("zzz", [f"c{number}" for number in range(100)], "they are")
    assert "c39" in hint
    assert hint.endswith(" and 60 more")


def test_an_unknown_key_is_an_error_of_the_program_and_a_key_error() -> None:
    named = NamedItems("the job has no output", {"counts": 1, "late": 2})
    with pytest.raises(UnknownKeyError) as raised:
        _ = named["count"]
    assert str(raised.value).startswith(f"{__file__}:")
    assert raised.value.what == "the job has no output 'count'"
    assert raised.value.hint == "did you mean 'counts'? the outputs are counts, late"
    assert isinstance(raised.value, ProgramError)
    assert isinstance(raised.value, KeyError)


def test_a_named_dict_is_otherwise_a_dict() -> None:
    named = NamedItems("the job has no output", {"counts": 1})
    assert named == {"counts": 1}
    assert named.get("count") is None
    assert "count" not in named
    for other in (copy.copy(named), pickle.loads(pickle.dumps(named))):
        assert other == named
        with pytest.raises(UnknownKeyError):
            _ = other["count"]
