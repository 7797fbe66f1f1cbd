"""Dead letters, the records that could not become rows, and their replay.

`records` has the schema of a dead letter, `table` writes the dead letter table,
`dead_letter_replay` decodes dead letters again.
"""
