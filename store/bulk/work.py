"""The work folder of a bulk load, which allows an interrupted load to resume where it stopped.

    plan.json             sources, options and seed of the load
    parts/00012.nq        canonical N-Quads of one chunk (or of one Spark task)
    parts/00012.json      statistics and bad lines of a finished chunk, written after the part file
    quarantine.ndjson     the bad lines with file, line number, reason and text
    summary.json          the summary, written after the commit

The name of the work folder is a hash of the load's options and of the paths, sizes and modification times of
the source files.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import ReportedError, StoreUnwritableError
from ..folder import write_whole
from .parsing import ParseRules
from .sources import Chunk, SourceFile

QUARANTINE = "quarantine.ndjson"
_FORMAT = 1


class LoadError(ReportedError):
    """A bulk load ended without a commit, or a Spark process failed.

    A failed bulk load has added no quad. If only the load's Parquet mirror failed, the quads are in the
    store.
    """

    code = "load"


class LoadCancelledError(LoadError):
    """The caller cancelled a bulk load; nothing was loaded."""

    code = "load-cancelled"


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """The statistics of one finished chunk of a bulk load.

    Attributes:
        rows: the number of parsed quads.
        lines: the number of lines; 0 for a document whose format is not line-based.
        bytes: the size in bytes of the part file; 0 for a chunk that Spark parsed.
        bad: the bad lines, each as a list ``[line, reason, text]``.
    """

    rows: int
    lines: int
    bytes: int
    bad: list[list[Any]]


class LoadFolder:
    """The work folder of one bulk load, with its plan, part files, statistics and bad lines.

    Attributes:
        folder: the path of the work folder.
        rules: the settings with which all chunks are parsed.
        resumed: True if an earlier, interrupted run began the load.
    """

    def __init__(
        self, folder: Path, sources: Sequence[SourceFile], chunks: Sequence[Chunk], rules: ParseRules
    ) -> None:
        self.folder = folder
        self.sources = list(sources)
        self.chunks = list(chunks)
        self.rules = rules
        self.resumed = False

    @classmethod
    def open(
        cls,
        below: Path,
        sources: Sequence[SourceFile],
        chunks: Sequence[Chunk],
        options: dict[str, Any],
    ) -> LoadFolder:
        """Create the folder of a bulk load, or open the folder of an earlier, unfinished run of the load.

        Args:
            below: the folder of all loads.
            sources: the source files.
            chunks: the chunks of the source files.
            options: the options that determine the parts, such as ``graph`` and ``base_iri``.

        Raises:
            StoreUnwritableError: the folder of the load cannot be read or written.
        """
        described = {"format": _FORMAT, "sources": [asdict(each) for each in sources], "options": options}
        text = json.dumps(described, sort_keys=True)
        folder = below / blake2b(text.encode(), digest_size=12).hexdigest()
        plan = folder / "plan.json"
        try:
            if (folder / "summary.json").exists():
                # An earlier load of the same files has finished, so the load starts from the beginning.
                shutil.rmtree(folder)
            resumed = plan.exists()
            if resumed:
                seed = json.loads(plan.read_text(encoding="utf-8"))["seed"]
            else:
                seed = secrets.token_hex(16)
                (folder / "parts").mkdir(parents=True, exist_ok=True)
                write_whole(plan, json.dumps(described | {"seed": seed}).encode())
        except (OSError, ValueError, KeyError) as error:
            raise StoreUnwritableError(f"the folder of loads {below} cannot be used: {error}") from error
        work = cls(folder, sources, chunks, ParseRules(options.get("graph"), options.get("base_iri"), seed))
        work.resumed = resumed
        return work

    @property
    def parts(self) -> Path:
        """The path of the folder with the part files of the load."""
        return self.folder / "parts"

    @property
    def quarantine(self) -> Path:
        """The path of the quarantine file, which contains the bad lines."""
        return self.folder / QUARANTINE

    def part(self, index: int) -> Path:
        """Return the path of the load's part file with this number."""
        return self.parts / f"{index:05d}.nq"

    def done(self, index: int) -> ChunkResult | None:
        """Return the statistics of a chunk of the load; None if the chunk is unfinished."""
        try:
            return ChunkResult(**json.loads((self.parts / f"{index:05d}.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    def finish(self, index: int, done: ChunkResult) -> None:
        """Write a chunk's statistics, which mark it as parsed; its part file must already be on disk."""
        write_whole(self.parts / f"{index:05d}.json", json.dumps(asdict(done), ensure_ascii=False).encode())

    def parsed_file(self, index: int) -> Path:
        """Return the path of the Parquet file to which Spark parses a chunk."""
        return self.folder / "parsed" / f"{index:05d}.parquet"

    def read_bytes(self) -> int:
        """Return the size in bytes of the source chunks that the load has parsed."""
        return sum(
            chunk.end - chunk.start if chunk.end else self.sources[chunk.source].size
            for chunk in self.chunks
            if (self.parts / f"{chunk.index:05d}.json").exists() or self.parsed_file(chunk.index).exists()
        )

    def finished(self) -> Iterator[tuple[Chunk, ChunkResult]]:
        """Yield the finished chunks of the load in order, with their statistics."""
        for chunk in self.chunks:
            done = self.done(chunk.index)
            if done is not None:
                yield chunk, done

    def bad_lines(
        self, finished: Iterable[tuple[Chunk, ChunkResult]] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the bad lines of chunks in order, with file name, line number in the file, reason and text.

        The line number of a bad line is None if it is unknown. By default, the bad lines of all finished
        chunks are returned.
        """
        source, before = -1, 0
        for chunk, done in self.finished() if finished is None else finished:
            if chunk.source != source:
                source, before = chunk.source, 0
            for line, reason, text in done.bad:
                where = {"file": self.sources[source].path, "line": before + line if line else None}
                yield where | {"reason": reason, "text": text}
            before += done.lines

    def require_few_bad(self, finished: Iterable[tuple[Chunk, ChunkResult]], max_bad: int | None) -> None:
        """Raise LoadError if chunks have more bad lines than ``max_bad``; None is no limit."""
        if max_bad is not None:
            for bad in islice(self.bad_lines(finished), max_bad, None):
                allowed = "no bad line is" if max_bad == 0 else f"at most {max_bad:,} bad lines are"
                raise bad_line_error(bad, f"{allowed} allowed")

    def write_quarantine(self) -> int:
        """Write all bad lines of the load to the quarantine file and return their number."""
        count = 0
        draft = self.folder / f"{QUARANTINE}.new"
        with draft.open("w", encoding="utf-8") as file:
            for each in self.bad_lines():
                file.write(json.dumps(each, ensure_ascii=False) + "\n")
                count += 1
        os.replace(draft, self.quarantine)
        return count

    def close(self, summary: dict[str, Any]) -> None:
        """Write the summary of a committed load and delete the part files."""
        write_whole(self.folder / "summary.json", json.dumps(summary).encode())
        shutil.rmtree(self.parts, ignore_errors=True)

    def remove(self) -> None:
        """Delete the work folder of the load."""
        shutil.rmtree(self.folder, ignore_errors=True)


def bad_line_error(bad: dict[str, Any], why: str) -> LoadError:
    """Return the error of a bulk load that fails because of a bad line."""
    place = f", line {bad['line']}" if bad["line"] else ""
    return LoadError(f"{bad['file']}{place}: {bad['reason']} ({why}; nothing was loaded)")
