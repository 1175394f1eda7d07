"""Charges each payment once, in a job whose worker may be killed at any time (docs/side-effects.md)."""

import asyncio
from dataclasses import dataclass

import rheos as rh


@dataclass
class Payment:
    id: str
    cents: int


@dataclass
class Receipt:
    id: str
    receipt: str


charged: dict[str, str] = {}  # simulates a payment system that recognises idempotency keys


async def charge(payment: Payment) -> Receipt:
    await asyncio.sleep(0.01)  # client.post(url, headers={"Idempotency-Key": payment.id})
    receipt = charged.setdefault(payment.id, f"receipt {payment.id}")
    return Receipt(payment.id, receipt)


env = rh.Environment(1, runtime="simulated", checkpoint_interval="1s")
rows = [Payment("a", 500), Payment("b", 700), Payment("a", 500)]
payments = env.from_source(rh.collection(rows), name="payments")
receipts = payments.key_by("id").call_once(charge, retries=rh.retry(3, on=ConnectionError))
receipts.collect("receipts")
result = env.execute("payments")
for row in result.collected["receipts"].sort_by("id").to_pylist():
    print(row)
print(result.counter("call_once(charge)", "calls"), "calls")
