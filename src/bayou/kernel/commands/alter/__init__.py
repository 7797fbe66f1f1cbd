"""ALTER TABLE: columns, properties, constraints, clustering columns and table features.

Start at `alteration`, which commits each of them.
"""
