from __future__ import annotations

import pytest

from bayou.protocol.actions import Protocol
from bayou.protocol.features import (
    FEATURES,
    protocol_for,
    reader_features,
    unsupported_for_read,
    unsupported_for_write,
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
        (legacy(1, 2), {}, marked("delta.invariants"), ["invariants"]),
        (legacy(1, 3), {"delta.constraints.c": "id > 1"}, PLAIN, ["checkConstraints"]),
        (legacy(1, 4), {}, marked("delta.generationExpression"), ["generatedColumns"]),
        (legacy(1, 6), {}, marked("delta.identity.start"), ["identityColumns"]),
        (
            listed(writer=("allowColumnDefaults",)),
            {},
            marked("CURRENT_DEFAULT"),
            ["allowColumnDefaults"],
        ),
        (
            listed("variantType"),
            {},
            StructType((StructField(name="v", data_type=VARIANT),)),
            ["variantType"],
        ),
        (
            listed("variantType", "variantShredding-preview"),
            {},
            StructType((StructField(name="v", data_type=ArrayType(element_type=VARIANT)),)),
            ["variantType", "variantShredding-preview"],
        ),
        (listed("deletionVectors"), {}, PLAIN, ["deletionVectors"]),
        (legacy(2, 5), {"delta.columnMapping.mode": "name"}, PLAIN, ["columnMapping"]),
        (listed("columnMapping"), {"delta.columnMapping.mode": "id"}, PLAIN, ["columnMapping"]),
        # Off-spec: the mode is on, the feature isn't among the reader's.
        (listed(), {"delta.columnMapping.mode": "name"}, PLAIN, ["columnMapping"]),
        (listed("typeWidening"), {}, marked("delta.typeChanges"), ["typeWidening"]),
        (listed(writer=("rowTracking",)), {}, PLAIN, ["rowTracking"]),
        (listed(writer=("clustering",)), {}, PLAIN, ["clustering"]),
        (listed(writer=("futureWriter",)), {}, PLAIN, ["futureWriter"]),
        (
            listed(writer=("inCommitTimestamp",)),
            {"delta.enableInCommitTimestamps": "true"},
            PLAIN,
            ["inCommitTimestamp"],
        ),
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


def test_a_property_that_needs_an_unsupported_feature_is_found_before_the_table_is_made():
    configuration = {
        "delta.feature.rowTracking": "supported",
        "delta.enableDeletionVectors": "true",
    }
    protocol = protocol_for(PLAIN, configuration)
    assert unsupported_for_write(protocol, configuration, PLAIN) == [
        "deletionVectors",
        "rowTracking",
    ]


def test_every_feature_of_the_spec_is_known():
    assert set(FEATURES) >= {
        "appendOnly", "invariants", "checkConstraints", "generatedColumns", "allowColumnDefaults",
        "changeDataFeed", "columnMapping", "identityColumns", "deletionVectors", "rowTracking",
        "timestampNtz", "domainMetadata", "v2Checkpoint", "catalogManaged", "icebergCompatV1",
        "icebergCompatV2", "clustering", "vacuumProtocolCheck", "inCommitTimestamp",
    }  # fmt: skip
