"""Reading materialized views from the files of a checkpoint.

    request ─ checkpoint ─ files of the key groups ─ current rows ─ conditions ─ page

A read costs the workers nothing: the driver, or any process that reaches the checkpoint directory,
reads what the checkpoint stored. All rows of an answer are those of one checkpoint.
"""
