"""Classes, collections and errors of Spark's JVM, for the other modules of this package.

With py4j's syntax `jvm.java.lang.Class`, py4j looks up `java`, `java.lang` and `java.lang.Class` as
classes. For `java` and `java.lang`, the JVM searches every JAR. `java_class` looks up only the
qualified name.

Before each call of a static method, py4j also asks the JVM whether the name is a method. For a
class that `java_class` returns, py4j asks only before the first call of the method.

At the end of a Python loop over a Java list, the JVM throws a NoSuchElementException. PySpark takes
about 40 ms to convert this exception. To avoid it, `java_items` and `scala_items` read the elements
by index.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias, TypeVar

from py4j.java_collections import JavaList
from py4j.java_gateway import JavaClass, JavaMember
from py4j.protocol import Py4JError

__all__ = [
    "TESTED_WITH",
    "JavaObject",
    "JvmError",
    "cached",
    "class_name",
    "error_reason",
    "java_class",
    "java_items",
    "scala_items",
    "scala_seq",
    "tested_with",
]

JavaObject: TypeAlias = Any
"""An object of the JVM. Only the package `bayou.spark.jvm` calls methods of such objects."""

JvmError = Py4JError
"""Error of a JVM call: a Java exception, a missing class or method, or a lost connection."""

TESTED_WITH: dict[str, tuple[str, ...]] = {}
"""The tested Spark versions of each function or class of this package, by its qualified name."""

_ItemT = TypeVar("_ItemT", bound=Callable[..., Any])
_ValueT = TypeVar("_ValueT")


def tested_with(*versions: str) -> Callable[[_ItemT], _ItemT]:
    """Decorator that records the Spark versions with which a function or class is tested."""

    def record(item: _ItemT) -> _ItemT:
        TESTED_WITH[f"{item.__module__}.{item.__qualname__}"] = versions
        return item

    return record


def error_reason(error: Exception) -> str:
    """Return the first line of an error's message, without the Java stack trace that follows."""
    return str(error).strip().partition("\n")[0]


@tested_with("4.2", "4.3")
def java_class(owner: JavaObject, name: str) -> JavaObject:
    """Return a Java class by its qualified name, for static members and constructors.

    Args:
        owner: a session's `_jvm`, or any other object of the same JVM.
    """
    return cached(owner, (_JavaClass, name), lambda: _JavaClass(name, owner._gateway_client))


class _JavaClass(JavaClass):  # type: ignore[misc]  # py4j has no types
    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):  # a method; the value of a field can change
            self.__dict__[name] = member
        return member


@tested_with("4.2", "4.3")
def cached(owner: JavaObject, key: Hashable, create: Callable[[], _ValueT]) -> _ValueT:
    """Return a value that is created once for each JVM.

    The values are stored in an attribute of the JVM's py4j client. Classes from `java_class` are
    released together with the client. All other Java objects in the cache are never released,
    because of a reference cycle: such an object keeps the client alive, and the client's cache
    keeps the object alive.

    Args:
        owner: a session's `_jvm`, or any other object of the JVM.
        key: a key that is unique among all callers; start it with a class or function of the
            caller.
        create: function that creates the value.
    """
    values: dict[Hashable, Any] = vars(owner._gateway_client).setdefault(_CACHE, {})
    if key not in values:
        values.setdefault(key, create())  # another thread can have created it meanwhile
    value: _ValueT = values[key]
    return value


_CACHE = "_bayou_cache"


@tested_with("4.2", "4.3")
def class_name(java: JavaObject) -> str:
    """The name of an object's class, without its package."""
    return str(java.getClass().getSimpleName())


@tested_with("4.2", "4.3")
def java_items(collection: JavaObject) -> list[JavaObject]:
    """The elements of a `java.util.Collection`."""
    if not isinstance(collection, JavaList):
        collection = java_class(collection, "java.util.ArrayList")(collection)
    return [collection.get(i) for i in range(len(collection))]


@tested_with("4.2", "4.3")
def scala_items(sequence: JavaObject) -> list[JavaObject]:
    """The elements of a Scala `Seq`."""
    converters = java_class(sequence, "scala.jdk.javaapi.CollectionConverters")
    return java_items(converters.asJava(sequence))


@tested_with("4.2", "4.3")
def scala_seq(owner: JavaObject, items: JavaObject) -> JavaObject:
    """A Scala `Seq` of the elements of a Python list or a `java.util.List`."""
    return java_class(owner, "org.apache.spark.api.python.PythonUtils").toSeq(items)
