"""Dead letters: records that couldn't become rows, stored in a table and replayed later.

`records` defines the schema of a dead letter, `table` writes the dead letter table, and
`dead_letter_replay` decodes dead letters again, with one of `append_replay`, `routed_replay` and
`upsert_replay`. `record_identity` decides which dead letters and rows have the same record.
"""
