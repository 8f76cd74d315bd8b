"""The work folder of a load, with which an interrupted load resumes where it stopped.

    plan.json             sources, options, seed
    parts/00012.nq        canonical N-Quads of one chunk (or of one Spark task)
    parts/00012.json      written last: rows, lines and bad lines of the chunk; with it the chunk is done
    quarantine.ndjson     the bad lines: file, line, reason, text
    summary.json          written after the commit

A hash of the unchanged source files and the options identifies a load.
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
    """A load ended without a commit; no quad was loaded."""

    code = "load"


class LoadCancelledError(LoadError):
    """The caller cancelled the load; nothing was loaded."""

    code = "load-cancelled"


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """The figures of one finished chunk; ``bad`` rows are ``[line, reason, text]``."""

    rows: int
    lines: int
    bytes: int
    bad: list[list[Any]]


class LoadFolder:
    """The work folder of one load: its plan, its parts, their figures and the bad lines.

    Attributes:
        folder: the path of the work folder.
        rules: the parse rules of all chunks.
        resumed: True if an earlier run began the load.
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
        """Create a load's folder, or open the folder of the same unfinished load.

        Args:
            below: the folder of all loads.
            sources: the source files.
            chunks: the chunks of the source files.
            options: all other inputs of the parts, such as ``graph`` and ``base_iri``.

        Raises:
            StoreUnwritableError: the folder cannot be written.
        """
        described = {"format": _FORMAT, "sources": [asdict(each) for each in sources], "options": options}
        text = json.dumps(described, sort_keys=True)
        folder = below / blake2b(text.encode(), digest_size=12).hexdigest()
        plan = folder / "plan.json"
        try:
            if (folder / "summary.json").exists():
                shutil.rmtree(folder)  # a finished load; the same files are loaded again
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
        """The folder of the part files."""
        return self.folder / "parts"

    @property
    def quarantine(self) -> Path:
        """The file of bad lines."""
        return self.folder / QUARANTINE

    def part(self, index: int) -> Path:
        """Return the path of the part file with one chunk's quads."""
        return self.parts / f"{index:05d}.nq"

    def done(self, index: int) -> ChunkResult | None:
        """Return the figures of a finished chunk; None if the chunk is unfinished."""
        try:
            return ChunkResult(**json.loads((self.parts / f"{index:05d}.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    def finish(self, index: int, done: ChunkResult) -> None:
        """Mark a chunk as finished, after its part was written to disk."""
        write_whole(self.parts / f"{index:05d}.json", json.dumps(asdict(done), ensure_ascii=False).encode())

    def parsed_file(self, index: int) -> Path:
        """Return the path of the Parquet file to which Spark parses a chunk."""
        return self.folder / "parsed" / f"{index:05d}.parquet"

    def read_bytes(self) -> int:
        """Return the bytes, as on disk, of the source chunks that are parsed."""
        return sum(
            chunk.end - chunk.start if chunk.end else self.sources[chunk.source].size
            for chunk in self.chunks
            if (self.parts / f"{chunk.index:05d}.json").exists() or self.parsed_file(chunk.index).exists()
        )

    def finished(self) -> Iterator[tuple[Chunk, ChunkResult]]:
        """Yield the finished chunks in order, with their figures."""
        for chunk in self.chunks:
            done = self.done(chunk.index)
            if done is not None:
                yield chunk, done

    def bad_lines(
        self, finished: Iterable[tuple[Chunk, ChunkResult]] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the bad lines in order, with line numbers in their files; None if unknown.

        By default the bad lines of all finished chunks are returned.
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
        """Raise LoadError at the first bad line over ``max_bad``; None allows any number."""
        if max_bad is not None:
            for bad in islice(self.bad_lines(finished), max_bad, None):
                allowed = "no bad line is" if max_bad == 0 else f"at most {max_bad:,} bad lines are"
                raise bad_line_error(bad, f"{allowed} allowed")

    def write_quarantine(self) -> int:
        """Write the quarantine file; returns how many bad lines there are."""
        count = 0
        draft = self.folder / f"{QUARANTINE}.new"
        with draft.open("w", encoding="utf-8") as file:
            for each in self.bad_lines():
                file.write(json.dumps(each, ensure_ascii=False) + "\n")
                count += 1
        os.replace(draft, self.quarantine)
        return count

    def close(self, summary: dict[str, Any]) -> None:
        """Write the summary of a committed load and delete the parts."""
        write_whole(self.folder / "summary.json", json.dumps(summary).encode())
        shutil.rmtree(self.parts, ignore_errors=True)

    def remove(self) -> None:
        """Delete the work folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def bad_line_error(bad: dict[str, Any], why: str) -> LoadError:
    """The error of a load that ends because of a bad line."""
    place = f", line {bad['line']}" if bad["line"] else ""
    return LoadError(f"{bad['file']}{place}: {bad['reason']} ({why}; nothing was loaded)")
