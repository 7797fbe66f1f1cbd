"""DELETE and UPDATE. MERGE, overwrites and REORG PURGE change rows with the same functions.

Start at `operation`. `row_changes` rewrites a file or writes its deletion vector.
"""
