import rheos as rh


def orders(block: rh.Block) -> dict[str, object]:
    rng = block.rng()
    return {
        "customer": rng.zipf(1.3, block.rows) % 200_000,
        "cents": rng.integers(100, 20_000, block.rows),
        "ordered_at": block.number() // 100,
    }


env = rh.Environment(runtime="continuous")
source = rh.generator(
    orders, rate_per_s=1_000, schema={"customer": int, "cents": int, "ordered_at": int}
)
watermark = rh.Watermark.bounded_out_of_orderness("1s", on="ordered_at")
totals = (
    env.from_source(source, watermark, name="orders")
    .key_by("customer")
    .window(rh.Tumbling("1m"))
    .aggregate(orders=rh.agg.count(), cents=rh.agg.sum("cents"))
)
totals.sink_to(rh.files.sink("totals"), name="totals")
env.execute("orders")
