"""Upgrades of a table's protocol (PROTOCOL.md, Protocol Evolution)."""

from __future__ import annotations

from bayou.errors import ArgumentError, UnsupportedFeatureError
from bayou.kernel.commands.alter.alteration import Alteration, AlterationMetrics, as_json
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.protocol import features
from bayou.protocol.actions import Protocol


def add_feature(
    engine: Engine, state: TableState, name: str, *, engine_info: str
) -> AlterationMetrics:
    """Add a table feature, and all features that it requires, to the protocol.

    Some features take effect only if a table property enables them.
    """
    name = features.feature_name(name)
    known = features.FEATURES.get(name)
    if known is None or not known.write:
        raise UnsupportedFeatureError(
            f"{state.path}: "
            + (
                f"unknown table feature {name!r} (DELTA_UNSUPPORTED_FEATURES_IN_CONFIG). This "
                "version of Bayou supports "
                f"{', '.join(sorted(f.name for f in features.FEATURES.values() if f.write))}."
                if known is None
                else f"this version of Bayou can't write tables with the feature {name!r} "
                "(DELTA_UNSUPPORTED_FEATURES_FOR_WRITE). Don't add it."
            ),
            table=state.path,
            features=[name],
        )
    return _upgrade(
        engine, state, features.with_features(state.protocol, [name]), engine_info=engine_info
    )


def upgrade_protocol(
    engine: Engine, state: TableState, reader: int, writer: int, *, engine_info: str
) -> AlterationMetrics:
    """Upgrade the protocol to a reader version and a writer version.

    If the writer version becomes 7, the new protocol lists the table features that the old
    versions implied.
    """
    if not (1 <= reader <= 3 and 1 <= writer <= 7):
        raise ArgumentError(
            f"{state.path}: protocol versions ({reader}, {writer}) don't exist. Use reader "
            "versions 1 to 3 and writer versions 1 to 7.",
            argument="reader" if not 1 <= reader <= 3 else "writer",
        )
    current = state.protocol
    if reader < current.min_reader_version or writer < current.min_writer_version:
        raise ArgumentError(
            f"{state.path}: the protocol can't be downgraded from ({current.min_reader_version}, "
            f"{current.min_writer_version}) to ({reader}, {writer}). Drop features with "
            "alter.drop_feature.",
            argument="reader" if reader < current.min_reader_version else "writer",
        )
    return _upgrade(
        engine, state, features.with_versions(current, reader, writer), engine_info=engine_info
    )


def _upgrade(
    engine: Engine, state: TableState, protocol: Protocol, *, engine_info: str
) -> AlterationMetrics:
    if protocol == state.protocol:
        return AlterationMetrics(version=state.version, num_commits=0)
    description = {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "readerFeatures": protocol.reader_features,
        "writerFeatures": protocol.writer_features,
    }
    alteration = Alteration(
        engine=engine,
        state=state,
        engine_info=engine_info,
        operation=Operation.UPGRADE_PROTOCOL,
        parameters={"newProtocol": as_json(description)},
    )
    return alteration.commit(lambda builder: builder.with_protocol(protocol))
