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
  one of each row. The seam is not wide enough for them yet: it takes a window's last end and its start
  from one number, `PaneStore.gather` and the trigger count on a later pane having a later last window,
  and panes are merged where key and pane are equal, where sessions are merged where they touch. So a
  store of panes that merges by the key's neighbours comes first, beside the one of the grid, and a
  rule for which rows are late of a session that is still growing.
- **Count windows**: `counts`. A pane is a key's nth run of rows, so `assign` needs the counts of keys,
  which are state beside the panes; they fire by `trigger.CountTrigger`, and not by the watermark.
- **Triggers**: further classes in `trigger` that give `Firing`s; a `WindowSpec` names one, and
  `windowed` makes it. What a trigger remembers by key and window is a state of its own.
- **Evictors**: between `Firing.rows_of` and the call in `process`; aggregates have no rows to evict.
"""
