from bayou.engines.arrow.engine import ArrowEngine

__all__ = ["ArrowEngine"]
