from __future__ import annotations

from collections import Counter

import pytest

from bayou.errors import PredicateError
from bayou.kernel.expressions.functions import all_functions, find

FUNCTIONS = [function for functions in all_functions().values() for function in functions]
NAMES = [name for function in FUNCTIONS for name in (function.name, *function.aliases)]


def test_a_name_is_one_function():
    assert [name for name, count in Counter(NAMES).items() if count > 1] == []


def test_a_function_is_found_in_any_case():
    for name in NAMES:
        assert name in (find(name.upper()).name, *find(name.upper()).aliases)


def test_a_signature_names_its_function():
    for function in FUNCTIONS:
        first = function.signature.replace("(", " ").replace(",", " ").lower().split()
        named = function.name in first or function.name in "+-*/%div[].case||add_interval&^~"
        assert named or function.name == "rlike", function.signature


def test_an_unknown_function_is_an_error_with_the_nearest_name():
    with pytest.raises(PredicateError, match=r"yaer.*Did you mean year\?.*The page Expressions"):
        find("yaer")
