"""The command `bayou demo`: reads flights from Kafka into a Delta table, and queries the table."""

from bayou.ingest.demo.demo import QUESTION, DemoResult, run_demo

__all__ = ["QUESTION", "DemoResult", "run_demo"]
