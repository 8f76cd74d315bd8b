"""File sink: writes events into a sequence of files, as lines of JSON or as Parquet."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from quadrill.store.documents.times import duration_ms
from quadrill.store.errors import UnsupportedError
from quadrill.store.feeds.subscription import StoredEvent
from quadrill.store.folder import sync_folder
from quadrill.store.hosts import AllowedHosts

from ...http.errors import HttpError
from ..declaration import DeclarationMember, number, one_of, text
from ..envelopes import line_of
from ..errors import ConnectorError
from ..sink import Sink


class FileSink(Sink):
    """A sink that writes events to a part file, and turns each full or old part file into a finished file.

    The part file, to which a file sink appends events, is ``NAME-<query>.part``. A finished file of a file
    sink is ``NAME-<query>-<first id>-<last id>.ndjson`` or ``.parquet``. ``<query>`` in the names of a sink's
    files is the time of the query's registration, so that a query that was dropped and registered again
    writes to other files. After a crash, a file sink reads its position from the part file and from the names
    of the finished files, so that no event with an id is written twice.
    """

    members = (
        DeclarationMember("path", text, "the path prefix of the files, below sink_folder", required=True),
        DeclarationMember(
            "format", one_of("ndjson", "parquet"), "the format of finished files", default="ndjson"
        ),
        DeclarationMember(
            "max_bytes", number(1_000, 1 << 40), "the size at which a part file is finished", default=64 << 20
        ),
        DeclarationMember(
            "max_age",
            lambda value, name: duration_ms(value, name, positive=True),
            "the age at which a part file is finished, as soon as the next events arrive",
        ),
    )
    _file: IO[bytes] | None = None
    # The ids of the first and the last event in the sink's part file; None if no event there has an id.
    _first: int | None = None
    _last: int | None = None

    _opened = False

    counts_itself = True
    guarantee = "each event is written exactly once; an event without an id (a reset) may be written twice"

    @classmethod
    def check(cls, given: Mapping[str, Any], hosts: AllowedHosts, folder: Path | None) -> None:
        """Raise HttpError 403 for files outside of ``folder``, UnsupportedError if pyarrow is missing."""
        _place(given["path"], folder)
        if given["format"] == "parquet":
            _parquet()

    @classmethod
    def claims(cls, given: Mapping[str, Any], folder: Path | None) -> Path | None:
        """Return the path prefix of all files of the sink, which no other sink may use."""
        return _place(given["path"], folder)

    def open(self) -> None:
        """Open the part file, remove an incomplete last line, and continue after the last written event."""
        place = _place(self.given["path"], self.context.folder)
        self._base = place.with_name(f"{place.name}-{self.context.query_ms}")
        self._part = self._base.with_name(self._base.name + ".part")
        try:
            self._part.parent.mkdir(parents=True, exist_ok=True)
            known = self.context.position if self._opened else None
            self._first = self._last = None
            self._pass_finished()
            self._file = open(self._part, "a+b")
            self._file.seek(0)
            end = 0
            for line in self._file:
                if not line.endswith(b"\n"):
                    break
                end += len(line)
                number = json.loads(line)["id"]
                self._note(number)
                if known is not None and number is not None and number > known:
                    self.context.figures.count(1)  # this event was written just before the disk was full
            self._file.truncate(end)
            self._opened = True
            self._began = time.time()
            # a crash left the part file of an existing finished file
            if self._first is not None and self._done().exists():
                self._file.truncate(0)
                self._first = self._last = None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConnectorError(f"{self._part} cannot be written: {error}") from error

    def close(self) -> None:
        """Close the part file, and ignore errors of a full disk: the feed delivers unwritten events again."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def deliver(self, events: Sequence[StoredEvent]) -> None:
        """Write events to the part file, and turn a full or old part file into a finished file."""
        position = self.context.position
        fresh = [each for each in events if each.id is None or position is None or each.id > position]
        age = self.given["max_age"]
        assert self._file is not None
        try:
            if age is not None and self._first is not None and time.time() - self._began > age / 1000:
                self._finish()
            self._file.write(b"".join(map(line_of, fresh)))
            self._file.flush()
            os.fsync(self._file.fileno())
            for each in fresh:
                self._note(each.id)
            self.context.figures.count(len(fresh))
            if self._file.tell() >= self.given["max_bytes"]:
                self._finish()
        except OSError as error:
            raise ConnectorError(f"{self._part} cannot be written: {error.strerror or error}") from error

    def _note(self, number: int | None) -> None:
        """Record that the part file contains the event with the id ``number``."""
        if number is not None:
            self._first = number if self._first is None else self._first
            self._last = number
            self._pass(number)

    def _pass(self, number: int) -> None:
        """Set the sink's position to an event id; a position of another query is replaced."""
        context = self.context
        ours = context.place_of in (None, context.query_ms)
        context.position = max(number, context.position or 0) if ours else number
        context.place_of = context.query_ms

    def _pass_finished(self) -> None:
        """Set the sink's position to the highest event id in the names of its finished files."""
        name = re.compile(re.escape(self._base.name) + r"-\d+-(\d+)\.(ndjson|parquet)")
        found = [name.fullmatch(each.name) for each in self._base.parent.iterdir()]
        if ids := [int(each[1]) for each in found if each]:
            self._pass(max(ids))

    def _done(self) -> Path:
        """Return the path of the finished file into which the sink turns its part file."""
        name = f"{self._base.name}-{self._first or 0:012d}-{self._last or 0:012d}.{self.given['format']}"
        return self._base.with_name(name)

    def _finish(self) -> None:
        """Turn the part file into a finished file, and start a new part file; without ids do nothing."""
        if self._first is None:
            return
        ending, done = self.given["format"], self._done()
        assert self._file is not None
        self._file.close()
        if ending == "parquet":
            made = done.with_name(done.name + ".making")
            try:
                _write_parquet(self._part, made)
            except BaseException:
                made.unlink(missing_ok=True)
                raise
            os.replace(made, done)
            self._part.unlink()
        else:
            os.replace(self._part, done)
        sync_folder(done.parent)
        self._file = open(self._part, "ab")
        self._first, self._last, self._began = None, None, time.time()


def _place(path: str, folder: Path | None) -> Path:
    """Return the real path of ``path`` in ``folder``; raise HttpError 403 if no sink may write there."""
    hint = "The setting sink_folder names it."
    if folder is None:
        raise HttpError(403, "there is no folder that sinks may write", code="outside-sink-folder", hint=hint)
    found = Path(os.path.realpath(folder / path))
    if found == folder or not found.is_relative_to(folder) or len(os.fsencode(found.name)) > 200:
        raise HttpError(
            403, f"{path} is not below the folder for sinks", code="outside-sink-folder", hint=hint
        )
    return found


def _parquet() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise UnsupportedError("Parquet without pyarrow", hint="pip install 'quadrill[parquet]'") from error
    return pyarrow


def _write_parquet(part: Path, made: Path) -> None:
    """Convert a file sink's part file of JSON lines to a Parquet file.

    The Parquet columns are ``id``, ``event``, ``at``, ``version``, and as text the values of variables,
    ``boolean``, ``quads`` and ``error``.
    """
    arrow = _parquet()
    rows: list[dict[str, Any]] = []
    with open(part, "rb") as lines:
        for line in lines:
            event = json.loads(line)
            data = event["data"]
            common = {"id": event["id"], "event": event["event"]}
            common |= {name: data.get(name) for name in ("at", "version")}
            if "results" in data:
                names = data["head"]["vars"]
                for binding in data["results"]["bindings"]:
                    values = {f"?{name}" if name in common else name: binding.get(name) for name in names}
                    rows.append(
                        common | {name: term and _text(term["value"]) for name, term in values.items()}
                    )
            else:
                rest = {key: data[key] for key in ("boolean", "quads", "error") if key in data}
                rows.append(common | {key: str(value) for key, value in rest.items()})
    columns = list(dict.fromkeys(name for row in rows for name in row)) or ["id", "event", "at", "version"]
    types = {"id": arrow.int64(), "at": arrow.timestamp("ms", tz="UTC"), "version": arrow.int64()}
    arrays = {
        name: arrow.array([row.get(name) for row in rows], type=types.get(name, arrow.string()))
        for name in columns
    }
    arrow.parquet.write_table(arrow.table(arrays), made)
    with open(made, "rb") as file:
        os.fsync(file.fileno())


def _text(value: Any) -> str:
    """Return the value of an RDF term as text; the value of a triple term becomes JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
