"""DELETE and UPDATE, with functions that MERGE, overwrites and REORG PURGE also use.

Start reading at `operation`. `row_changes` rewrites a file or writes its deletion vector.
"""
