"""The folder `metadata` of a table: `v<N>.metadata.json` and `version-hint.text`.

Metadata files have consecutive numbers N, as in Iceberg's file system tables. Each file is created
with put-if-absent, so only one of several concurrent conversions succeeds. The others read the new
file and try again.

`version-hint.text` contains the number of the newest metadata file. After a writer has written the
hint, it lists the files again. If there is a newer file, the writer updates the hint.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from typing import Any

import msgspec

from bayou.errors import FileMissingError, StorageError, UniversalFormatError
from bayou.json_decoding import decode_json
from bayou.kernel.engine import ByteRange, Engine
from bayou.kernel.iceberg.iceberg_schema import Json
from bayou.kernel.iceberg.manifests.manifest_writer import MetadataWriter
from bayou.kernel.iceberg.metadata_checks import check_metadata
from bayou.kernel.iceberg.table_metadata import converted_version, with_previous_file

FOLDER = "metadata"
_HINT = "version-hint.text"
_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_WRITTEN = re.compile(rf"{_UUID}-m0\.avro|snap-[0-9]+-1-{_UUID}\.avro|{_UUID}-deletes\.puffin")
_METADATA_FILE = re.compile(r"v([0-9]{1,18})\.metadata\.json")
_NUMBER = re.compile(rb"\s*([0-9]{1,18})\s*")


def _is_own(name: str) -> bool:
    return bool(_WRITTEN.fullmatch(name) or _METADATA_FILE.fullmatch(name))


def location(path: str) -> str:
    """Convert a file's path to the URI that Iceberg's metadata contains."""
    return path if "://" in path else f"file://{path}"


def engine_path(uri: str) -> str:
    """Convert a URI in Iceberg's metadata to a path for the engine; the inverse of `location`."""
    if uri.startswith("file:"):
        return "/" + uri.removeprefix("file:").lstrip("/")
    return uri


class MetadataFolder:
    """The folder `metadata` of a table, which is next to the folder `_delta_log`."""

    def __init__(self, engine: Engine, table: str) -> None:
        self._engine = engine
        self._table = table
        self.path = f"{table}/{FOLDER}"

    def new_manifest(self) -> str:
        """Return the path of a new manifest."""
        return f"{self.path}/{uuid.uuid4()}-m0.avro"

    def new_manifest_list(self, snapshot_id: int) -> str:
        """Return the path of a new manifest list."""
        return f"{self.path}/snap-{snapshot_id}-1-{uuid.uuid4()}.avro"

    def new_puffin_file(self) -> str:
        """Return the path of a new Puffin file, which contains deletion vectors."""
        return f"{self.path}/{uuid.uuid4()}-deletes.puffin"

    def metadata_file(self, number: int) -> str:
        """Return the path of the metadata file with this number."""
        return f"{self.path}/v{number}.metadata.json"

    def numbers(self) -> list[int]:
        """Return the numbers of the metadata files, ascending; empty if there are none."""
        numbers = []
        try:
            with self._engine.files.list_from(f"{self.path}/v") as files:
                for file in files:
                    match = _METADATA_FILE.fullmatch(file.path.rpartition("/")[2])
                    if match is not None:
                        numbers.append(int(match[1]))
        except FileMissingError:
            return []
        return sorted(numbers)

    def read(self, number: int) -> Json:
        """Read the metadata file with this number.

        Raises:
            FileMissingError: the file doesn't exist.
            UniversalFormatError: the file isn't table metadata.
        """
        path = self.metadata_file(number)
        data = self._read(path)
        try:
            metadata = decode_json(data, dict[str, Any])
        except msgspec.DecodeError as error:
            raise self._invalid(path, str(error)) from error
        if "format-version" not in metadata:
            raise self._invalid(path, "format-version is missing")
        return metadata

    def newest(self) -> tuple[int, Json] | None:
        """Return the number and the contents of the newest metadata file; None if there is none.

        Raises:
            UniversalFormatError: the newest file isn't table metadata. If a conversion wrote the
                file, this error is also raised if a field that conversions read is invalid.
        """
        numbers = self.numbers()
        if not numbers:
            return None
        metadata = self.read(numbers[-1])
        if converted_version(metadata) is not None and metadata["format-version"] != 1:
            metadata.setdefault("snapshots", [])
            try:
                check_metadata(metadata)
            except ValueError as error:
                raise self._invalid(self.metadata_file(numbers[-1]), str(error)) from error
        return numbers[-1], metadata

    def publish(
        self, number: int, previous: Json | None, metadata: Json, writer: MetadataWriter
    ) -> bool:
        """Write `metadata` as metadata file `number` + 1; return False if that file exists.

        Args:
            previous: contents of the file `number`; None if the metadata isn't based on this file.
        """
        if previous is not None:
            path = location(self.metadata_file(number))
            metadata = with_previous_file(metadata, path, previous.get("last-updated-ms", 0))
        return self.commit(number + 1, writer.table_metadata(metadata))

    def commit(self, number: int, data: bytes) -> bool:
        """Create metadata file `number`; return False if another conversion created it.

        Raises:
            StorageError: it is unknown whether the file was created.
        """
        path = self.metadata_file(number)
        self._engine.files.mkdirs(self.path)
        try:
            # If a store repeats a request whose response was lost, it finds the file that exists.
            created = self._engine.files.put_if_absent(path, data) or self._read(path) == data
        except StorageError:
            created = self._has(path, data)
            if not created:
                raise
        if created:
            self.update_hint()
        return created

    def update_hint(self) -> None:
        """Write the number of the newest metadata file to `version-hint.text`.

        A larger number in the hint is replaced only if the metadata file with that number doesn't
        exist.
        """
        path = f"{self.path}/{_HINT}"
        while numbers := self.numbers():
            hinted = self.hint()
            if hinted == numbers[-1]:
                return
            if hinted is not None and hinted > numbers[-1] and self._exists(hinted):
                return  # the file is newer than the listing
            self._engine.files.put(path, str(numbers[-1]).encode())

    def hint(self) -> int | None:
        """Return the number in `version-hint.text`; None if there is no file or no number."""
        try:
            match = _NUMBER.fullmatch(self._read(f"{self.path}/{_HINT}"))
        except FileMissingError:
            return None
        return None if match is None else int(match[1])

    def has_other_metadata(self) -> bool:
        """Whether the folder has metadata files that no conversion has written.

        This is the case if the name of a metadata file isn't `v<N>.metadata.json`, or if no
        conversion has written the metadata file with the lowest number.
        """
        numbers = []
        try:
            with self._engine.files.list_from(f"{self.path}/") as files:
                for file in files:
                    name = file.path.rpartition("/")[2]
                    match = _METADATA_FILE.fullmatch(name)
                    if match is not None:
                        numbers.append(int(match[1]))
                    elif ".metadata.json" in name and not name.startswith("."):
                        return True
        except FileMissingError:
            return False
        return bool(numbers) and not self.is_converted(min(numbers))

    def is_converted(self, number: int) -> bool:
        """Whether the metadata file with this number exists and was written by a conversion."""
        try:
            return converted_version(self.read(number)) is not None
        except (FileMissingError, UniversalFormatError):
            return False

    def written_before(self, timestamp: int) -> list[str]:
        """List old manifests, manifest lists and Puffin files.

        Args:
            timestamp: time in ms since the epoch. Only files that were last modified before this
                time are listed.
        """
        paths = []
        try:
            with self._engine.files.list_from(f"{self.path}/") as files:
                for file in files:
                    name = file.path.rpartition("/")[2]
                    if file.latest_modification_time < timestamp and _WRITTEN.fullmatch(name):
                        paths.append(file.path)
        except FileMissingError:
            pass
        return paths

    def put(self, path: str, data: bytes) -> None:
        """Write a manifest, a manifest list or a Puffin file."""
        self._engine.files.mkdirs(self.path)
        self._engine.files.put(path, data)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files that conversions have written to the folder; other paths are ignored."""
        own = f"{self.path}/"
        self._engine.files.delete_files(
            [path for path in paths if path.startswith(own) and _is_own(path.removeprefix(own))]
        )

    def _exists(self, number: int) -> bool:
        try:
            self._engine.files.status(self.metadata_file(number))
        except FileMissingError:
            return False
        return True

    def _has(self, path: str, data: bytes) -> bool:
        try:
            return self._read(path) == data
        except StorageError:
            return False

    def _read(self, path: str) -> bytes:
        return b"".join(self._engine.files.read_files([ByteRange(path=path)]))

    def _invalid(self, path: str, problem: str) -> UniversalFormatError:
        return UniversalFormatError(
            f"{self._table}: {path} isn't Iceberg table metadata: {problem}. Delete the file, then "
            f"run bayou uniform sync {self._table}.",
            table=self._table,
        )
