"""`bayou demo`: reads New York's flights of 2013 from Kafka into a Delta table and queries it."""

from bayou.ingest.demo.demo import QUESTION, DemoResult, run_demo

__all__ = ["QUESTION", "DemoResult", "run_demo"]
