"""Predicates: values (`model`), SQL text (`sql`), evaluation over Arrow, data skipping."""

__all__: list[str] = []
