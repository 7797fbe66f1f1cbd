"""Fast access to classes and collections of Spark's JVM through py4j.

`jvm.java.lang.Class` asks the JVM whether `java`, `java.lang` and `java.lang.Class` are classes,
and each miss searches every JAR. `java_class` uses the qualified name directly.

A Python loop over a Java list ends with a NoSuchElementException in the JVM, which PySpark converts
with its stack trace; that takes about 40 ms. `java_items` and `scala_items` copy the list instead.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass

__all__ = ["java_class", "java_items", "scala_items"]


def java_class(jvm: Any, name: str) -> Any:
    """A Java class, for its static members and constructors.

    Args:
        jvm: a session's `_jvm`.
        name: qualified name, such as `java.lang.Class`.
    """
    return JavaClass(name, jvm._gateway_client)  # noqa: SLF001  # no public API


def java_items(collection: Any) -> list[Any]:
    """The elements of a `java.util.Collection`."""
    array = collection.toArray()
    return [array[i] for i in range(len(array))]


def scala_items(jvm: Any, sequence: Any) -> list[Any]:
    """The elements of a Scala `Seq`."""
    converters = java_class(jvm, "scala.jdk.javaapi.CollectionConverters")
    return java_items(converters.asJava(sequence))
