"""Commands for one table: read, sql, diff, history, restore, optimize, vacuum, uniform."""
