"""Whether a topic's key columns can be a key."""

from __future__ import annotations

from bayou.errors import PipelineError
from bayou.ingest.batch.rows import RowLayout
from bayou.ingest.config import Topic
from bayou.protocol.schema import DecimalType, PrimitiveType, StructType

__all__ = ["check_keys", "unfit_key"]


def check_keys(topic: Topic, layout: RowLayout) -> None:
    """Check keys against the columns of a record; without columns nothing can be said yet.

    Raises:
        PipelineError: a column isn't there, or can't be compared.
    """
    if topic.upsert_keys is None or not layout.record.fields:
        return
    keys = topic.upsert_keys
    for name in (*keys.columns, *([keys.ordering] if keys.ordering else [])):
        reason = unfit_key(name, layout.record)
        if reason is not None:
            what = "ordering-column" if name == keys.ordering else "key-columns"
            raise PipelineError(
                f"topic {topic.key!r}: {what}: {reason}; name fields of the records.",
                topic=topic.key,
            )


def unfit_key(name: str, columns: StructType) -> str | None:
    """Why a column can't be in a key or order records; None where it can."""
    field = next((f for f in columns if f.name == name), None)
    if field is None:
        return f"{name!r} isn't a field of the records"
    if not isinstance(field.data_type, PrimitiveType | DecimalType):
        return f"{name!r} is a {field.data_type}, which can't be compared"
    return None
