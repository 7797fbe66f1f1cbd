from bayou.testing.engine_suite import EngineSuite

__all__ = ["EngineSuite"]
