"""Windows over keyed streams, by event time.

    rows ─ contract.Windows ─ panes ─ trigger ─ operator or process ─ results
           (grid, ...)        │       which windows fire, and when
           pane of a row,     state by key and pane,
           late or not        in memory or spilled

| part | file |
|---|---|
| the seam: what a kind of window says | `contract` |
| the kinds, by name; tumbling and sliding windows | `kinds`; `grid` |
| state by key and pane, and its segments | `panes`, `segments` |
| which windows fire, and when | `trigger` |
| how far they have fired, as it is stored | `progress` |
| rows in, late rows, snapshots: what all window operators share | `windowed`, `frames`, `layout` |
| windows with aggregates (`rheos.aggregates`), and what is kept of these | `operator`, `tables` |
| windows with a function | `process` |

Where more goes:

- **A kind of window that only lies elsewhere** (months, shifts): a file with its descriptor (a
  `graph.windows.Window`) and its `contract.Windows`, and a line in `kinds`.
- **Session windows**: `sessions`. A pane is one session of a key, (its start, its end); `assign` makes
  one of each row. Sessions of a key that meet become one where rows of state are merged: `PaneStore`
  then asks the kind for the panes of merged rows, which the grid leaves as they are.
- **Count windows**: `counts`. A pane is a key's nth run of rows, so `assign` needs the counts of keys,
  which are state beside the panes; they fire by `trigger.CountTrigger`, and not by the watermark.
- **Triggers**: further classes in `trigger` that give `Firing`s; a `WindowSpec` names one, and
  `windowed` makes it. What a trigger remembers by key and window is a state of its own.
- **Evictors**: between `Firing.rows_of` and the call in `process`; aggregates have no rows to evict.
"""
