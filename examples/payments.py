"""Card fraud: an alert for a small payment that a large one of the same card follows within a minute.

    rheos run examples/payments.py --checkpoint-dir out/checkpoints     runs until you stop it
    rheos dashboard                                                     shows it, from another shell

The payments are generated, or read from the files of a folder as they appear (`-- --read FOLDER`).
"""

from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

import rheos as rh

MINUTE = 60_000
RATE = 2_000  # Payments per second.
START_MS = 1_767_268_800_000  # Noon of 2026-01-01, in UTC.
SHOPS = np.array(["bakery", "books", "cinema", "garden", "music", "toys"])


@dataclass
class Payment:
    card: int
    euros: float
    shop: str
    at: datetime


@dataclass
class Alert:
    card: int
    small: float
    large: float
    shop: str
    at: datetime


class SmallThenLarge(rh.KeyedProcessFunction):
    """Keeps a small payment until the card's next one, or for a minute."""

    small = rh.ValueState(float)

    def process_element(self, payment, ctx: rh.KeyedContext) -> Iterator[Alert]:
        if self.small.value is not None and payment.euros > 500:
            yield Alert(payment.card, self.small.value, payment.euros, payment.shop, payment.at)
        self.small.clear()
        if payment.euros < 1:
            self.small.value = payment.euros
            ctx.timers.register(ctx.timestamp + MINUTE)

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> None:
        self.small.clear()


cli = ArgumentParser()
cli.add_argument("--read", type=Path)
cli.add_argument("--out", default=Path("out/payments"), type=Path)
options = cli.parse_args()


def payments(block: rh.Block) -> dict[str, np.ndarray]:
    rng = block.rng()
    return {
        "card": rng.integers(0, 5_000, block.rows),
        "euros": np.round(rng.lognormal(3.0, 1.6, block.rows), 2),
        "shop": rng.choice(SHOPS, block.rows),
        "at": (START_MS + block.number() * 1000 // RATE).astype("datetime64[ms]"),
    }


env = rh.Environment(parallelism=2, checkpoint_interval="2s", checkpoints=rh.Checkpoints(retain=20))
paid = env.from_source(
    rh.files.source(options.read, schema=Payment, discover="500ms")
    if options.read
    else rh.generator(payments, rate_per_s=RATE),
    watermark=rh.Watermark.bounded_out_of_orderness("1s", on="at"),
    name="payments",
)
per_shop = (
    paid.key_by("shop")
    .window(rh.Tumbling("10s"))
    .aggregate(payments=rh.agg.count(), euros=rh.agg.sum("euros"))
    .name("per shop")
)
alerts = paid.key_by("card").process(SmallThenLarge(), order="event_time").name("fraud")
per_shop.sink_to(rh.files.sink(options.out / "per-shop"), name="shops")
alerts.sink_to(rh.files.sink(options.out / "alerts"), name="alerts")
env.execute("payments")
