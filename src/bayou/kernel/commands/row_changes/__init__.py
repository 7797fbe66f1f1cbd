"""DELETE and UPDATE, and the row changes that MERGE, overwrites and REORG PURGE share with them.

Start at `operation`. `row_changes` rewrites a file or writes its deletion vector.
"""
