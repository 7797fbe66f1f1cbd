"""`bayou demo`: New York's flights of 2013, from a Kafka topic to a Delta table to SQL."""

from bayou.ingest.demo.demo import QUESTION, DemoResult, run_demo

__all__ = ["QUESTION", "DemoResult", "run_demo"]
