"""ALTER TABLE: columns, properties, constraints, clustering columns and table features.

Start at `alteration`, which commits all of these changes.
"""
