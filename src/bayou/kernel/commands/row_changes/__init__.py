"""DELETE, UPDATE and TRUNCATE, and the file changes that MERGE shares with them.

Start at `operation`. `row_changes` rewrites a file or writes its deletion vector.
"""
