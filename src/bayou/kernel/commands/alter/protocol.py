"""The table's protocol raised (PROTOCOL.md, Protocol Evolution)."""

from __future__ import annotations

from bayou.errors import ArgumentError, UnsupportedFeatureError
from bayou.kernel.commands.alter.alteration import Alteration, AlterationMetrics, as_json
from bayou.kernel.engine import Engine
from bayou.kernel.log.table_state import TableState
from bayou.kernel.operation import Operation
from bayou.protocol import features
from bayou.protocol.actions import Protocol

__all__ = ["add_feature", "upgrade_protocol"]


def add_feature(
    engine: Engine, state: TableState, name: str, *, engine_info: str
) -> AlterationMetrics:
    """Let the protocol name a feature, and what it requires; what it does may take a property.

    Raises:
        UnsupportedFeatureError: nobody knows it, or it can't be written.
    """
    known = features.FEATURES.get(name)
    if known is None or not known.write:
        raise UnsupportedFeatureError(
            f"{state.path} can't be given the feature {name!r}: "
            + (
                f"there is none of that name that this version of Bayou knows; it knows "
                f"{', '.join(sorted(f.name for f in features.FEATURES.values() if f.write))}."
                if known is None
                else "this version of Bayou can't write tables that use it."
            ),
            table=state.path,
            features=[name],
        )
    return _upgrade(
        engine, state, features.upgraded(state.protocol, [name]), engine_info=engine_info
    )


def upgrade_protocol(
    engine: Engine, state: TableState, reader: int, writer: int, *, engine_info: str
) -> AlterationMetrics:
    """Raise the protocol to versions; at reader 3 and writer 7 features are listed.

    Raises:
        ArgumentError: versions that don't exist, or below those of the table.
    """
    if not (1 <= reader <= 3 and 1 <= writer <= 7):
        raise ArgumentError(
            f"There is no protocol ({reader}, {writer}): reader versions are 1 to 3, writer "
            "versions 1 to 7.",
            argument="reader" if not 1 <= reader <= 3 else "writer",
        )
    have = state.protocol
    if reader < have.min_reader_version or writer < have.min_writer_version:
        raise ArgumentError(
            f"The protocol of {state.path} is ({have.min_reader_version}, "
            f"{have.min_writer_version}) and can't be lowered to ({reader}, {writer}); "
            "alter.drop_feature takes features away.",
            argument="reader" if reader < have.min_reader_version else "writer",
        )
    return _upgrade(
        engine, state, features.with_versions(have, reader, writer), engine_info=engine_info
    )


def _upgrade(
    engine: Engine, state: TableState, protocol: Protocol, *, engine_info: str
) -> AlterationMetrics:
    if protocol == state.protocol:
        return AlterationMetrics(version=state.version, num_commits=0)
    described = {
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
        parameters={"newProtocol": as_json(described)},
    )
    return alteration.commit(lambda builder: builder.with_protocol(protocol))
