"""The target table of a topic: its definition, its checks, and commits to it.

Start reading at `target_table`, which commits. `target_state` reads the table and checks it, and
`target_upserts` merges the rows of an upsert.
"""
