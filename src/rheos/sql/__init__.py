"""SQL over streams. A statement goes through these stages, a file each:

- `dialect`: string to tree (sqlglot, Spark's dialect with Flink's forms for streams);
- `scope`: resolution of its names; `expressions/`: its expressions as Polars';
- `query`: tree to `plan`: operations, their columns, and their changelog mode;
- `lowering`: plan to streams, by public methods.

The environment calls `session`. Errors show their place in the SQL (`text`).
"""
