"""The built-in aggregates, a file for each kind. Users know this package as `rh.agg`.

A kind is one class (`contract.Agg`): what its result is, what windows keep of it by key and pane and
how that is merged and finished, and, where it can be kept row by row, its running cell. Windows,
running aggregates, the combining of a batch job, snapshots, their shapes and the DataFrames of
savepoints are all made from that.

To add a kind, such as `mode`: write `mode.py` here with the class and a function `mode(column)`,
and name both below. `contract` says what the class defines; `cells` has what running cells are made
of, `integer_sum` and `exact_sum` how sums are kept.
"""

from rheos.aggregates.approx_count_distinct import ApproxCountDistinct
from rheos.aggregates.approx_count_distinct import approx_count_distinct as approx_count_distinct
from rheos.aggregates.approx_quantile import ApproxQuantile
from rheos.aggregates.approx_quantile import approx_quantile as approx_quantile
from rheos.aggregates.collect import Collect
from rheos.aggregates.collect import collect as collect
from rheos.aggregates.contract import Agg as Agg
from rheos.aggregates.count import Count
from rheos.aggregates.count import count as count
from rheos.aggregates.distinct import CountDistinct, MeanDistinct, SumDistinct
from rheos.aggregates.distinct import count_distinct as count_distinct
from rheos.aggregates.distinct import mean_distinct as mean_distinct
from rheos.aggregates.distinct import sum_distinct as sum_distinct
from rheos.aggregates.expression import Expression
from rheos.aggregates.expression import expression as expression
from rheos.aggregates.extremes import Max, Min
from rheos.aggregates.extremes import max as max
from rheos.aggregates.extremes import min as min
from rheos.aggregates.first_last import First, Last
from rheos.aggregates.first_last import first as first
from rheos.aggregates.first_last import last as last
from rheos.aggregates.mean import Mean
from rheos.aggregates.mean import mean as mean
from rheos.aggregates.quantile import Quantile
from rheos.aggregates.quantile import quantile as quantile
from rheos.aggregates.sum import Sum
from rheos.aggregates.sum import sum as sum
from rheos.aggregates.top_k import TopK
from rheos.aggregates.top_k import top_k as top_k
from rheos.aggregates.variance import StdDev, Variance
from rheos.aggregates.variance import stddev as stddev
from rheos.aggregates.variance import variance as variance

KINDS: dict[str, type[Agg]] = {
    made.kind: made
    for made in (
        *(Count, Sum, Min, Max, Mean, Variance, StdDev, First, Last),
        *(Quantile, CountDistinct, SumDistinct, MeanDistinct, Collect, TopK, Expression),
        *(ApproxCountDistinct, ApproxQuantile),
    )
}
"""Every kind by its name, by which stored state is known."""
