"""Windows over keyed streams, by event time.

    rows ─ contract.Windows ─ panes ─ trigger ─ operator or process ─ results
           (grid, sessions)   │       which windows fire, and when
           pane of a row,     state by key and pane,
           late or not        in memory or spilled

Each kind of window belongs to one of two families. Fixed windows have bounds that do not depend on the
rows. Merging windows start from single rows and merge. `families` lists the parts of each family.

| part | file |
|---|---|
| the interface that each kind of window implements | `contract`, `pane_columns` |
| the kinds, by name | `kinds` |
| tumbling and sliding windows; cumulating ones; session windows | `grid`; `cumulating`; `sessions` |
| windows on the calendar of a time zone; the local time of a zone | `calendar`; `zone_clock` |
| state by key and pane, on top of `core.state.pane_segments` | `panes` |
| fixed windows: the panes they read, and when they fire | `fixed_panes`, `fixed_trigger` |
| merging windows: the rule; panes, when they fire | `merging`; `merging_panes`, `merging_trigger` |
| the newest pane of each key of merging windows, merged in place | `newest_panes` |
| rows of merging windows that may turn out to be late | `late_candidates` |
| buffered rows of fixed windows, combined in one go | `pending_rows` |
| the trigger interface that operators use | `trigger` |
| the progress of firing, as stored in snapshots | `progress` |
| code shared by window operators | `base`, `frames`, `layout`, `stored_rows` |
| windows with aggregates (`rheos.core.aggregates`); their state | `operator`; `aggregate_tables` |
| such tables: contract; one row per pane; several | `table_contract`; `totals_table`; `row_tables` |
| columns of exact sums | `exact_limbs` |
| aggregates over a whole stream, in two phases; the rows in between | `two_phases`, `partials` |
| state as arrays of numbers; merging by small integer keys | `arrays`; `address_merging` |
| windows with a function | `process` |
| windows with another trigger than the watermark, row by row | `triggers` |

To add more:

- **A kind of window with other bounds** (shifts), or with another way of merging: add a file with its
  `contract.FixedWindows` or `contract.MergingWindows`, its descriptor in `graph.windows`, and a line in
  `kinds`. Triggers and evictors then work at once, because `triggers` uses the same arithmetic.
- **Triggers, evictors, assigners, counts, processing time**: `triggers`, row by row.
"""
