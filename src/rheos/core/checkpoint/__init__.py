"""Decisions about checkpoints, attempts and the log of a job. All parts are pure.

`coordinator` receives events and returns actions; it passes each event to the part that it concerns:

- `lifecycle`: the state of the job, from one attempt to the next;
- `checkpointing`, `open_checkpoints`, `acknowledgements`: the checkpoints of the running attempt;
- `next_attempt`, `continuation`, `placement`, `restart`: the next attempt, from the log that was
  read;
- `savepoint_requests`, `rescaling`, `publishing`, `retention`: requests, publications by the driver,
  old files;
- `source_phases`, `split_discovery`, `available_now`: what the driver decides about sources.

`log` stores numbered entries put-if-absent. `log_entries`, `log_order`, `log_compaction` and
`log_marks` define what an entry contains, which entry may follow it, and which may be deleted.
`snapshot_writer` writes state, `state_assignment` and `restored_state` distribute and read it.
`compatibility`, `type_changes`, `column_changes` and `upgrade` compare stored state with a changed
program. `driver_note` and `standby` decide which driver may start, `succession` and
`handover_situation` which driver continues a job that is handed over.
"""
