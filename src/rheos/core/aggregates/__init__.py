"""The built-in aggregates, a file for each kind. Users know this package as `rh.agg`.

A kind is one class (`contract.Agg`). The class defines the result, and a form for each way to compute
the aggregate:

| form | used by |
|---|---|
| `windowed` | windows, and the combining of a batch job: state by key and pane, which is merged |
| `running` | running aggregates and tables, GROUP BY of SQL: a value for each row so far |
| `frame` | OVER and MATCH_RECOGNIZE of SQL: a run of rows that moves forward |

Snapshots, their shapes and the DataFrames of savepoints are derived from the same class. SQL calls a
kind that sets `in_sql` by its name.

To add a kind, such as `mode`: write `mode.py` here with the class and a function `mode(column)`, and
name both below. `contract` lists what the class defines. `cells` has building blocks for running cells,
`frames` and `exact_totals` for frames; `integer_sum` and `exact_sum` are sums for windows.
"""

import sys as _sys

from rheos.core.aggregates.approx_count_distinct import ApproxCountDistinct
from rheos.core.aggregates.approx_count_distinct import approx_count_distinct as approx_count_distinct
from rheos.core.aggregates.approx_quantile import ApproxQuantile
from rheos.core.aggregates.approx_quantile import approx_quantile as approx_quantile
from rheos.core.aggregates.collect import Collect
from rheos.core.aggregates.collect import collect as collect
from rheos.core.aggregates.contract import Agg as Agg
from rheos.core.aggregates.count import Count
from rheos.core.aggregates.count import count as count
from rheos.core.aggregates.distinct import CountDistinct, MeanDistinct, SumDistinct
from rheos.core.aggregates.distinct import count_distinct as count_distinct
from rheos.core.aggregates.distinct import mean_distinct as mean_distinct
from rheos.core.aggregates.distinct import sum_distinct as sum_distinct
from rheos.core.aggregates.expression import Expression
from rheos.core.aggregates.expression import expression as expression
from rheos.core.aggregates.extremes import Max, Min
from rheos.core.aggregates.extremes import max as max
from rheos.core.aggregates.extremes import min as min
from rheos.core.aggregates.first_last import First, Last
from rheos.core.aggregates.first_last import first as first
from rheos.core.aggregates.first_last import last as last
from rheos.core.aggregates.mean import Mean
from rheos.core.aggregates.mean import mean as mean
from rheos.core.aggregates.quantile import Quantile
from rheos.core.aggregates.quantile import quantile as quantile
from rheos.core.aggregates.sum import Sum
from rheos.core.aggregates.sum import sum as sum
from rheos.core.aggregates.top_k import TopK
from rheos.core.aggregates.top_k import top_k as top_k
from rheos.core.aggregates.variance import StdDev, Variance
from rheos.core.aggregates.variance import stddev as stddev
from rheos.core.aggregates.variance import variance as variance
from rheos.core.unknown_names import with_hints as _with_hints

KINDS: dict[str, type[Agg]] = {
    made.kind: made
    for made in (
        *(Count, Sum, Min, Max, Mean, Variance, StdDev, First, Last),
        *(Quantile, CountDistinct, SumDistinct, MeanDistinct, Collect, TopK, Expression),
        *(ApproxCountDistinct, ApproxQuantile),
    )
}
"""Every kind by the name that identifies it in stored state."""

_with_hints("agg", _sys.modules[__name__])  # Now, as other modules use these functions as keys.
