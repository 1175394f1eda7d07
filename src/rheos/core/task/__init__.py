"""One slot: the engine, and the subtask of each chain that it runs.

`engine` is the loop of a slot. `chain` has the common part of all chains, `source_chain` and
`input_chain` their two kinds; `tree` connects the operators of a chain, also in batch. `inputs` aligns
barriers and merges watermarks (`watermarks`); `outputs`, `routing` and `partition` distribute rows.
`checkpoints`, `chain_snapshot`, `barriers`, `commits` and `in_flight_rows` are a subtask's share of
checkpoints. `batch_time`, `pace` and `pacing` choose the size of batches; `batch_cost`,
`fixed_cost` and `core_waits` measure the working time that rows do not need. `early_work` processes
batches that wait at the input, for asynchronous operators. `plan_driver` drives a whole plan in one
thread.
"""
