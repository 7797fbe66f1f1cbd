"""`bayou demo`: reads flights of 2013 from Kafka into a Delta table, and queries the table."""

from bayou.ingest.demo.demo import QUESTION, DemoResult, run_demo

__all__ = ["QUESTION", "DemoResult", "run_demo"]
