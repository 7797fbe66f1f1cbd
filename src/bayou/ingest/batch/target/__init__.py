"""The target table of a topic. Start at `target_table`, which commits to it."""
