"""The page of table features says what the code does."""

from __future__ import annotations

import re

import features_reference
import pytest
import write_reference

from bayou.protocol.features import FEATURES

FEATURE_PART, REASON_PART = features_reference.page().split("## Reasons")
ROW = re.compile(r"^\| `(\S+)` (\|.*\|)$", flags=re.MULTILINE)
ROWS = dict(ROW.findall(FEATURE_PART))
REASONS = dict(ROW.findall(REASON_PART))


def test_the_page_is_the_one_that_is_published():
    published = (write_reference.FOLDER / "features.md").read_text(encoding="utf-8")
    assert published == features_reference.page()


@pytest.mark.parametrize("name", FEATURES)
def test_every_feature_is_listed_as_read_and_written_or_not(name):
    read, written = (cell.strip() for cell in ROWS[name].split("|")[3:5])
    assert read == ("yes" if FEATURES[name].read else "no")
    assert written == ("yes" if FEATURES[name].write else "no")


def test_no_other_feature_is_listed():
    assert set(ROWS) == set(FEATURES)


def test_every_feature_that_is_not_supported_has_its_reason():
    assert set(REASONS) == {f.name for f in FEATURES.values() if not (f.read and f.write)}
    assert all(len(reason) > 40 for reason in REASONS.values())
