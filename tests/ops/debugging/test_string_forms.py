"""Pseudonyms of strings have the form of the original, in the same order."""

from __future__ import annotations

import ipaddress
import json
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from rheos.ops.debugging.pseudonyms import Pseudonyms


def pseudonyms_of(values: list[str], seed: int = 1) -> dict[str, str]:
    found = Pseudonyms([(value, pa.string()) for value in values], Random(seed))
    return {value: found.of(value) for value in values}


def moment(random: Random) -> datetime:
    return datetime(1999, 1, 1, tzinfo=UTC) + timedelta(milliseconds=random.randrange(10**12))


def card(random: Random) -> str:
    first = random.choice("345") + "".join(random.choices("0123456789", k=14))
    (valid,) = (first + digit for digit in "0123456789" if passes_luhn(first + digit))
    return " ".join(re.findall("....", valid)) if random.random() < 0.3 else valid


def passes_luhn(number: str) -> bool:
    digits = [int(char) for char in number if char.isdigit()]
    doubled = [digit * 2 if at % 2 else digit for at, digit in enumerate(reversed(digits))]
    return sum(n // 10 + n % 10 for n in doubled) % 10 == 0


def drawn_uuid(random: Random) -> str:
    return str(uuid.UUID(int=random.getrandbits(128), version=random.choice([1, 3, 4, 5])))


def address(random: Random) -> str:
    return str(ipaddress.IPv4Address(random.getrandbits(32)))


def matched(pattern: str) -> Callable[[str], object]:
    """Return a function that checks that a string matches, and returns the values of the groups."""

    def groups(text: str) -> object:
        match = re.fullmatch(pattern, text)
        assert match is not None, text
        return match.groups()

    return groups


def parts_of_path(text: str) -> object:
    day, file = text.split("/")[1:]
    return date.fromisoformat(day).year // 100, uuid.UUID(file[:36]).version


def parts_of_json(text: str) -> object:
    found = json.loads(text)
    assert passes_luhn(found["card"])
    assert datetime.fromisoformat(found["at"]).tzinfo is UTC
    assert ipaddress.IPv4Address(found["user"])
    letters = re.sub(r"[^\W\d_]", "x", found["note"])
    return [*found], letters, found["paid"], len(found["n"]), len(text)


@dataclass(frozen=True)
class Form:
    draw: Callable[[Random], str]
    kept: Callable[[str], object]
    """Function that returns what a pseudonym keeps. It raises an error if a string has another form."""


FORMS: Mapping[str, Form] = {
    "uuid": Form(drawn_uuid, lambda text: (uuid.UUID(text).version, uuid.UUID(text).variant)),
    "upper uuid": Form(
        lambda random: drawn_uuid(random).upper(),
        lambda text: (uuid.UUID(text).version, text.upper() == text),
    ),
    "digest": Form(lambda random: f"{random.getrandbits(160):040x}", matched("[0-9a-f]{40}")),
    "mac": Form(
        lambda random: ":".join(f"{random.randrange(256):02x}" for _ in range(6)),
        matched("[0-9a-f]{2}(?::[0-9a-f]{2}){5}"),
    ),
    "card": Form(card, lambda text: (passes_luhn(text), text[0], text.count(" "))),
    "date": Form(
        lambda random: str(moment(random).date()), lambda text: date.fromisoformat(text).year // 100
    ),
    "compact date": Form(
        lambda random: f"{moment(random):%Y%m%d}", lambda text: date.fromisoformat(text).year // 100
    ),
    "time": Form(
        lambda random: moment(random).time().isoformat(random.choice(["minutes", "milliseconds"])),
        lambda text: (time.fromisoformat(text).tzinfo, len(text)),
    ),
    "moment": Form(
        lambda random: moment(random).isoformat(sep=random.choice("T ")),
        lambda text: (datetime.fromisoformat(text).tzinfo, len(text)),
    ),
    "compact moment": Form(
        lambda random: f"{moment(random):%Y%m%dT%H%M%SZ}",
        lambda text: (datetime.fromisoformat(text).tzinfo, len(text)),
    ),
    "ipv4": Form(address, lambda text: (ipaddress.IPv4Address(text).version, len(text))),
    "network": Form(
        lambda random: f"{address(random)}/24",
        lambda text: ipaddress.IPv4Interface(text).network.prefixlen,
    ),
    "ipv6": Form(
        lambda random: str(ipaddress.IPv6Address(random.getrandbits(128) & random.getrandbits(80))),
        lambda text: ipaddress.IPv6Address(text).version,
    ),
    "mapped ipv4": Form(
        lambda random: f"::ffff:{address(random)}", lambda text: ipaddress.IPv6Address(text).version
    ),
    "e-mail": Form(
        lambda random: f"ada.{random.randrange(99)}@mail{random.randrange(9)}.example.com",
        matched(r"[a-z]{3}\.\d+@[a-z]{4}\d\.[a-z]{7}(\.com)"),
    ),
    "json": Form(
        lambda random: json.dumps(
            {
                "user": address(random),
                "card": card(random),
                "at": str(moment(random)),
                "n": [1, -20.5e9],
            }
            | {
                "note": random.choice(['a "b"', "é\\n\n", "", "🙂 x"]),
                "paid": random.choice([True, None]),
            }
        ),
        parts_of_json,
    ),
    "telephone": Form(
        lambda random: f"+49 30 {random.randrange(10**6, 10**7)}", matched(r"(\+49) [1-9]\d \d{7}")
    ),
    "number": Form(
        lambda random: f"order-2024-{random.randrange(2000):05}",
        matched(r"[a-z]{5}-[1-9]\d{3}-(0*)\d+"),
    ),
    "path": Form(
        lambda random: f"in/{moment(random).date()}/{drawn_uuid(random)}.json",
        parts_of_path,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_kept(form: str) -> None:
    drawn = FORMS[form]
    for seed in range(20):
        random = Random(seed)
        found = pseudonyms_of([drawn.draw(random) for _ in range(1 + seed)], seed)
        for value, pseudonym in found.items():
            assert drawn.kept(pseudonym) == drawn.kept(value), (value, pseudonym)
    assert sum(value == pseudonym for value, pseudonym in found.items()) <= len(found) / 3


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_all_forms_is_kept(seed: int) -> None:
    random = Random(seed)
    values = [form.draw(random) for form in FORMS.values() for _ in range(8)]
    values += [
        value[:at] + random.choice("09afAF-:.~") for value in values for at in (3, len(value) - 1)
    ]
    found = pseudonyms_of(values, seed)
    for one, other in pairwise(sorted(set(values))):
        assert found[one] < found[other]


@pytest.mark.parametrize(
    "text", ["2024-02-29", "1999-12-31", "10.0.0.300", "2024-13-01", "::", "+", "99:99:99", "a@b", ""]
)
def test_strings_next_to_a_form_keep_their_characters(text: str) -> None:
    (pseudonym,) = pseudonyms_of([text]).values()
    classes = [re.sub("[a-z]", "a", re.sub(r"\d", "9", each)) for each in (text, pseudonym)]
    assert classes[0] == classes[1]
    if text in ("2024-02-29", "1999-12-31"):
        assert pseudonym == text


def test_a_card_and_a_string_that_differs_in_the_check_digit_keep_their_order() -> None:
    values = [f"411111111111111{digit}" for digit in "0123456789"]
    found = pseudonyms_of(values)
    assert sorted(found.values()) == [found[value] for value in values]
    assert len(set(found.values())) == 10
