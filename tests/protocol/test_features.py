from __future__ import annotations

import pytest

from bayou.protocol.actions import Protocol
from bayou.protocol.features import (
    FEATURES,
    features_in_use,
    protocol_for,
    reader_features,
    unsupported_for_read,
    unsupported_for_write,
    with_features,
    with_versions,
    writer_features,
)
from bayou.protocol.schema import (
    LONG,
    TIMESTAMP_NTZ,
    VARIANT,
    ArrayType,
    StructField,
    StructType,
)

PLAIN = StructType((StructField(name="id", data_type=LONG),))


def marked(key: str) -> StructType:
    inner = StructField(name="x", data_type=LONG, metadata={key: "1"})
    return StructType((StructField(name="s", data_type=StructType((inner,))),))


def listed(*reader: str, writer: tuple[str, ...] = ()) -> Protocol:
    return Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=list(reader),
        writer_features=[*reader, *writer],
    )


def legacy(reader: int, writer: int) -> Protocol:
    return Protocol(min_reader_version=reader, min_writer_version=writer)


@pytest.mark.parametrize(
    "protocol",
    [
        legacy(1, 2),
        legacy(1, 6),
        legacy(2, 5),
        listed("timestampNtz"),
        listed("timestampWithoutTimezone"),
        listed("vacuumProtocolCheck"),
        listed("deletionVectors"),
        listed("v2Checkpoint"),
        listed("typeWidening"),
        listed("columnMapping"),
        listed(writer=("clustering", "someFutureWriterFeature")),
        Protocol(min_reader_version=1, min_writer_version=7, writer_features=["rowTracking"]),
    ],
)
def test_a_table_that_uses_nothing_new_can_be_read(protocol):
    assert unsupported_for_read(protocol, {}, PLAIN) == []


@pytest.mark.parametrize(
    ("protocol", "configuration", "schema", "names"),
    [
        (listed("someFutureFeature"), {}, PLAIN, ["someFutureFeature"]),
        (legacy(4, 7), {}, PLAIN, ["reader version 4"]),
    ],
)
def test_what_cant_be_read_is_named(protocol, configuration, schema, names):
    assert unsupported_for_read(protocol, configuration, schema) == names
    assert set(names) <= set(unsupported_for_write(protocol, configuration, schema))


@pytest.mark.parametrize(
    ("protocol", "configuration"),
    [
        (legacy(1, 2), {"delta.appendOnly": "true"}),
        (legacy(1, 6), {"delta.enableChangeDataFeed": "true"}),
        (legacy(2, 5), {}),
        (listed("timestampNtz", writer=("appendOnly", "invariants")), {}),
        (listed("vacuumProtocolCheck"), {}),
        (listed(writer=("changeDataFeed", "domainMetadata", "checkConstraints")), {}),
        (listed(writer=("inCommitTimestamp",)), {"delta.enableInCommitTimestamps": "false"}),
    ],
)
def test_a_feature_that_isnt_in_use_doesnt_keep_a_table_from_being_written(protocol, configuration):
    assert unsupported_for_write(protocol, configuration, PLAIN) == []


@pytest.mark.parametrize(
    ("protocol", "configuration", "schema", "names"),
    [
        # Off-spec: a column has the type, the feature isn't listed.
        (
            listed("timestampNtz"),
            {},
            StructType((StructField(name="v", data_type=ArrayType(element_type=VARIANT)),)),
            ["variantType"],
        ),
        # Off-spec: the mode is on, the feature isn't among the reader's.
        (listed(), {"delta.columnMapping.mode": "name"}, PLAIN, ["columnMapping"]),
        (listed(writer=("futureWriter",)), {}, PLAIN, ["futureWriter"]),
        (legacy(1, 8), {}, PLAIN, ["writer version 8"]),
    ],
)
def test_what_cant_be_written_is_named(protocol, configuration, schema, names):
    assert unsupported_for_write(protocol, configuration, schema) == names


def test_legacy_versions_imply_features():
    assert reader_features(legacy(2, 5)) == ("columnMapping",)
    assert writer_features(legacy(1, 2)) == ("appendOnly", "invariants")
    assert set(writer_features(legacy(1, 4))) == {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
    }


# As delta-spark 4.4.0 creates such tables.
@pytest.mark.parametrize(
    ("schema", "configuration", "versions", "reader"),
    [
        (PLAIN, {}, (1, 2), None),
        (PLAIN, {"delta.appendOnly": "true"}, (1, 2), None),
        (PLAIN, {"delta.constraints.c": "id > 1"}, (1, 3), None),
        (PLAIN, {"delta.enableChangeDataFeed": "true"}, (1, 7), None),
        (PLAIN, {"delta.enableDeletionVectors": "true"}, (3, 7), ["deletionVectors"]),
        (PLAIN, {"delta.columnMapping.mode": "name"}, (2, 7), None),
        (
            StructType((StructField(name="n", data_type=TIMESTAMP_NTZ),)),
            {},
            (3, 7),
            ["timestampNtz"],
        ),
    ],
)
def test_a_new_table_gets_the_least_protocol_it_needs(schema, configuration, versions, reader):
    protocol = protocol_for(schema, configuration)
    assert (protocol.min_reader_version, protocol.min_writer_version) == versions
    assert protocol.reader_features == reader
    if versions[1] == 7:
        assert protocol.writer_features is not None
        assert set(reader or ()) <= set(protocol.writer_features)


def test_a_property_can_spell_a_features_name_in_any_case():
    protocol = protocol_for(PLAIN, {"delta.feature.timestampNTZ": "supported"})
    assert protocol.reader_features == ["timestampNtz"]
    assert protocol_for(PLAIN, {"delta.feature.CHECKCONSTRAINTS": "supported"}) == legacy(1, 3)


def test_a_property_that_needs_an_unsupported_feature_is_found_before_the_table_is_made():
    configuration = {
        "delta.feature.someday": "supported",
        "delta.feature.adaptiveMetadata-preview": "supported",
    }
    protocol = protocol_for(PLAIN, configuration)
    assert unsupported_for_write(protocol, configuration, PLAIN) == [
        "someday",
        "adaptiveMetadata-preview",
    ]


@pytest.mark.parametrize(
    ("before", "names", "after"),
    [
        (legacy(1, 2), [], legacy(1, 2)),
        (legacy(1, 2), ["appendOnly"], legacy(1, 2)),
        (legacy(1, 2), ["checkConstraints"], legacy(1, 3)),
        (legacy(1, 3), ["changeDataFeed", "generatedColumns"], legacy(1, 4)),
    ],
)
def test_a_protocol_that_a_legacy_version_stands_for_stays_one(before, names, after):
    assert with_features(before, names) == after


def test_a_feature_that_no_legacy_version_stands_for_is_listed_with_what_it_requires():
    found = with_features(legacy(1, 2), ["rowTracking"])
    assert (found.min_reader_version, found.min_writer_version) == (1, 7)
    assert found.reader_features is None
    assert found.writer_features == ["appendOnly", "invariants", "domainMetadata", "rowTracking"]
    assert with_features(found, ["rowTracking"]) == found
    wider = with_features(found, ["deletionVectors"])
    assert (wider.min_reader_version, wider.reader_features) == (3, ["deletionVectors"])
    assert wider.writer_features == [*found.writer_features, "deletionVectors"]


def test_versions_only_rise_and_list_what_they_implied():
    assert with_versions(legacy(1, 2), 1, 4) == legacy(1, 4)
    assert with_versions(legacy(2, 5), 1, 2) == legacy(2, 5)
    listed_now = with_versions(legacy(1, 3), 3, 0)
    assert (listed_now.min_reader_version, listed_now.min_writer_version) == (3, 7)
    assert listed_now.reader_features == []
    assert listed_now.writer_features == ["appendOnly", "invariants", "checkConstraints"]


def test_every_feature_that_is_not_supported_has_a_reason():
    for feature in FEATURES.values():
        assert bool(feature.reason) == (not (feature.read and feature.write)), feature.name


def test_every_feature_of_the_spec_is_known():
    assert set(FEATURES) >= {
        "appendOnly", "invariants", "checkConstraints", "generatedColumns", "allowColumnDefaults",
        "changeDataFeed", "columnMapping", "identityColumns", "deletionVectors", "rowTracking",
        "timestampNtz", "domainMetadata", "v2Checkpoint", "catalogManaged", "icebergCompatV1",
        "icebergCompatV2", "icebergCompatV3", "clustering", "vacuumProtocolCheck",
        "inCommitTimestamp",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("feature", "schema", "configuration"),
    [
        ("variantType", StructType((StructField(name="v", data_type=VARIANT),)), {}),
        ("variantShredding", PLAIN, {"delta.enableVariantShredding": "true"}),
        ("typeWidening", PLAIN, {"delta.enableTypeWidening": "true"}),
    ],
)
def test_a_feature_isnt_given_where_its_preview_stands_for_it(feature, schema, configuration):
    assert features_in_use(schema, configuration) == [feature]
    assert features_in_use(schema, configuration, listed(f"{feature}-preview")) == []
    asked = {**configuration, f"delta.feature.{feature}-preview": "supported"}
    assert features_in_use(schema, asked) == [f"{feature}-preview"]
