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
| tumbling and sliding windows; session windows | `grid`; `sessions` |
| state by key and pane, and its segments | `panes`, `segments` |
| fixed windows: what they gather, and when they fire | `fixed_panes`, `fixed_trigger` |
| merging windows: the rule; panes, when they fire | `merging`; `merging_panes`, `merging_trigger` |
| rows of these that may be late or not | `undecided` |
| what fires, as operators see it | `trigger` |
| how far windows have fired, as it is stored | `progress` |
| what window operators share: rows in, late rows, snapshots | `windowed`, `frames`, `layout`, `rows` |
| windows with aggregates (`rheos.aggregates`), and what is kept of these | `operator`, `tables` |
| windows with a function | `process` |

Where more goes:

- **A kind of window that lies elsewhere** (months, shifts), or that merges otherwise (a gap by a column
  of the row, which `assign` then needs besides the time): a file with its `contract.FixedWindows` or
  `contract.MergingWindows`, its descriptor in `graph.windows`, and a line in `kinds`.
- **Count windows**: `counts`. A pane is a key's nth run of rows, so `assign` needs the counts of keys,
  which are state beside the panes; they fire by a `trigger.Trigger` that counts, and not by the
  watermark. That is a third family in `families`.
- **Triggers**: further `trigger.Trigger`s that give `Firing`s; a `WindowSpec` names one, and its family
  makes it. What a trigger remembers by key and window is a state of its own.
- **Evictors**: between `Firing.rows_of` and the call in `process`; aggregates have no rows to evict.
- **Assigners of the user's**: a `FixedWindows` whose `assign` asks her function; its panes are windows,
  (start, end), and a row of several windows is given several times.
"""
