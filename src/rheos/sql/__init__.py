"""SQL over streams. A statement goes through these stages, a file each:

- `dialect`: text to tree (sqlglot, Spark's dialect with Flink's forms for streams);
- `scope`: what its names mean; `expressions/`: its expressions as Polars';
- `query`: tree to `plan`: what is computed, of which columns, and how it changes;
- `lowering`: plan to streams, by the methods that users have, too.

`session` is what the environment calls. Errors show the place in the text (`text`).
"""
