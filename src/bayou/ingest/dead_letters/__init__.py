"""Dead letters: records that couldn't become rows, stored in a table and replayed later.

`records` defines the schema of a dead letter, and `table` writes the dead letter table.
`dead_letter_replay` replays dead letters. It calls `append_replay`, `routed_replay` or
`upsert_replay`, depending on the topic. `record_identity` decides whether a dead letter and a row
belong to the same record.
"""
