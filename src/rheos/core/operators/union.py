"""Union: the rows of all inputs, which are of one schema, as they come.

```python
def build(env):
    tea = env.from_source(rh.collection([{"item": "tea", "price": 4}]))
    jam = env.from_source(rh.collection([{"item": "jam", "price": 6}]))
    return tea.union(jam)


assert sorted(simulate(build).out["item"].to_pylist()) == ["jam", "tea"]
```
"""

from __future__ import annotations

from collections.abc import Iterator

from rheos.core.operators.contract import Operator, Out
from rheos.core.protocol.elements import Batch


class UnionOperator(Operator):
    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        yield Out(batch)
