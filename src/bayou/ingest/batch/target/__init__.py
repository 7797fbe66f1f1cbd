"""The target table of a topic: its definition, checks, commits. Start at `target_table`."""
