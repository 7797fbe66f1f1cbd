"""ALTER TABLE: columns, properties, constraints, clustering columns and table features.

Start reading at `alteration`, which commits all of these changes.
"""
