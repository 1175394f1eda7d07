"""`--param`: parameters of a program by name."""

from __future__ import annotations

import pytest
import typer

from rheos.cli.options import parameters


def test_parameters_are_passed_by_name() -> None:
    assert parameters(None) == {}
    assert parameters(["least=7", "where=a=b", "empty="]) == {"least": "7", "where": "a=b", "empty": ""}


@pytest.mark.parametrize("text", ["least", "=7", " =7"])
def test_a_parameter_without_a_name_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a parameter: write --param threshold=10"):
        parameters([text])
