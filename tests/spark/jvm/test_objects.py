import gc
import weakref

import pytest
from py4j.java_gateway import GatewayClient, GatewayProperty

from bayou.spark.jvm.objects import cached, java_class, java_items, scala_items, scala_seq

pytestmark = pytest.mark.spark


def test_a_static_method_is_looked_up_once(spark):
    math = java_class(spark._jvm, "java.lang.Math")
    assert math.abs(-2) == 2
    assert math.abs is math.abs
    assert java_class(spark._jvm, "java.lang.Math") is math
    assert java_class(spark._jsparkSession, "java.lang.Math") is math


def test_the_value_of_a_static_field_is_read_each_time(spark):
    types = [java_class(spark._jvm, "java.lang.Integer").TYPE for _ in range(2)]
    assert types[0] is not types[1]
    assert types[0].equals(types[1])


def test_elements_of_collections_are_read_with_nulls_and_in_order(spark):
    listed = java_class(spark._jvm, "java.util.ArrayList")()
    for item in ("b", None, "a"):
        listed.add(item)
    assert java_items(listed) == ["b", None, "a"]
    assert scala_items(scala_seq(spark._jvm, listed)) == ["b", None, "a"]
    ordered = java_class(spark._jvm, "java.util.TreeSet")()
    for number in (3, 1, 2):
        ordered.add(number)
    assert java_items(ordered) == [1, 2, 3]
    assert java_items(java_class(spark._jvm, "java.util.ArrayList")()) == []


class Owner:
    """An object of the JVM of a py4j client, which isn't connected."""

    def __init__(self):
        properties = GatewayProperty(auto_field=False, pool=None)
        self._gateway_client = GatewayClient(gateway_property=properties)
        self._gateway_client.converters = None


def test_a_cached_value_is_created_once_for_each_jvm():
    owners = [Owner(), Owner()]
    values = [cached(owners[0], "key", object) for _ in range(2)]
    assert values[0] is values[1]
    assert cached(owners[0], "other", object) is not values[0]
    assert cached(owners[1], "key", object) is not values[0]


def test_cached_classes_are_released_with_the_client():
    owner = Owner()
    client = owner._gateway_client
    released, cached_class = weakref.ref(client), weakref.ref(java_class(owner, "java.util.List"))
    del owner, client
    gc.collect()
    assert released() is None
    assert cached_class() is None
