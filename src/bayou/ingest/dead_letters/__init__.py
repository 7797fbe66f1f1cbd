"""Dead letters, the records that could not become rows, and their replay.

`records` defines the schema of a dead letter, `table` writes the dead letter table, and
`dead_letter_replay` decodes dead letters again. `upsert_replay` replays the dead letters of an
upsert.
"""
