"""ALTER TABLE: schema, properties, constraints, clustering and features of an existing table."""
