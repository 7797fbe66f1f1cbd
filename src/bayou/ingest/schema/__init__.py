"""The schema of a topic's table: schema files, inferred types, new columns, key columns.

Start at `policy`, which decides what happens to each field of a record.
"""
