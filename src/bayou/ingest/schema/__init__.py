"""The schema of a topic's table: schema files, inferred types, new columns and key columns.

Start reading at `policy`, which applies the schema policy to the fields of records.
"""
