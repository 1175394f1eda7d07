"""The built-in aggregates, a file for each kind. Users know this package as `rh.agg`.

A kind is one class (`contract.Agg`): what its result is, what windows keep of it by key and pane and
how that is merged and finished, and, where it can be kept row by row, its running cell. Windows,
running aggregates, the combining of a batch job, snapshots, their shapes and the DataFrames of
savepoints are all made from that.

To add a kind, such as `first`: write `first.py` here with the class and a function `first(column)`,
and name both below. `contract` says what the class defines; `cells` has what running cells are made
of, `integer_sum` and `exact_sum` how sums are kept.
"""

from rheos.aggregates.contract import Agg as Agg
from rheos.aggregates.count import Count
from rheos.aggregates.count import count as count
from rheos.aggregates.count_distinct import CountDistinct
from rheos.aggregates.count_distinct import count_distinct as count_distinct
from rheos.aggregates.extremes import Max, Min
from rheos.aggregates.extremes import max as max
from rheos.aggregates.extremes import min as min
from rheos.aggregates.mean import Mean
from rheos.aggregates.mean import mean as mean
from rheos.aggregates.quantile import Quantile
from rheos.aggregates.quantile import quantile as quantile
from rheos.aggregates.sum import Sum
from rheos.aggregates.sum import sum as sum

KINDS: dict[str, type[Agg]] = {
    made.kind: made for made in (Count, Sum, Min, Max, Mean, Quantile, CountDistinct)
}
"""Every kind by its name, by which stored state is known."""
