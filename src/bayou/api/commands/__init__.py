"""Commands of the table handle: alter, merge, optimize, maintenance, DELETE and UPDATE."""
