"""Windows over keyed streams, by event time.

    rows ─ contract.Windows ─ panes ─ trigger ─ operator or process ─ results
           (grid, sessions)   │       which windows fire, and when
           pane of a row,     state by key and pane,
           late or not        in memory or spilled

A kind of window is of one of two families: its windows lie where they lie, or grow out of the rows and
merge. `families` says what each is made of.

| part | file |
|---|---|
| the seam: what a kind of window says | `contract`, `columns` |
| the kinds, by name | `kinds` |
| tumbling and sliding windows; cumulating ones; session windows | `grid`; `cumulating`; `sessions` |
| windows by the calendar of a time zone; the local clock of one | `calendar`; `zone_clock` |
| state by key and pane, over `core.state.pane_segments` | `panes` |
| fixed windows: what they gather, and when they fire | `fixed_panes`, `fixed_trigger` |
| merging windows: the rule; panes, when they fire | `merging`; `merging_panes`, `merging_trigger` |
| the newest pane of each key of these, merged in place | `newest_panes` |
| rows of these that may be late or not | `undecided` |
| rows of fixed windows that are to be combined together | `waiting` |
| what fires, as operators see it | `trigger` |
| how far windows have fired, as it is stored | `progress` |
| what window operators share: rows in, late rows, snapshots | `windowed`, `frames`, `layout`, `rows` |
| windows with aggregates (`rheos.core.aggregates`), and what is kept of these | `operator`, `tables` |
| these over a whole stream, in two phases; the rows between | `two_phases`, `partials` |
| state as arrays of numbers; merged by keys that are small whole numbers | `arrays`; `by_address` |
| windows with a function | `process` |
| windows that something else than the watermark fires, row by row | `triggered` |

Where more goes:

- **A kind of window that lies elsewhere** (shifts), or that merges otherwise: a file with its
  `contract.FixedWindows` or `contract.MergingWindows`, its descriptor in `graph.windows`, and a line in
  `kinds`. With a trigger or an evictor it works at once: `triggered` asks the same arithmetic.
- **Triggers, evictors, assigners, counts, the clock**: `triggered`, row by row.
"""
