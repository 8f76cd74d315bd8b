"""The work folder of a load: what is done of it, so that a load that was cut off goes on where it stopped.

    plan.json             sources, options, seed
    parts/00012.nq        canonical N-Quads of one chunk (or of one Spark task)
    parts/00012.json      written last: rows, lines and bad lines of the chunk; with it the chunk is done
    quarantine.ndjson     the bad lines: file, line, reason, text
    summary.json          written after the commit

A load is told from others by its fingerprint: the same sources, unchanged, with the same options.
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
    """A load ended without a commit; nothing of it is in the store."""

    code = "load"


class LoadCancelledError(LoadError):
    """Somebody cancelled the load."""

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
        folder: where it is.
        rules: what holds for every chunk.
        resumed: True when an earlier run began it.
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
        """Begin a load below a folder, or find the unfinished one of the same fingerprint.

        Args:
            below: the folder of all loads.
            sources: its files.
            chunks: and their chunks.
            options: everything else that the parts depend on; ``graph`` and ``base_iri`` among it.

        Raises:
            StoreUnwritableError: the folder cannot be written.
        """
        described = {"format": _FORMAT, "sources": [asdict(each) for each in sources], "options": options}
        text = json.dumps(described, sort_keys=True)
        folder = below / blake2b(text.encode(), digest_size=12).hexdigest()
        plan = folder / "plan.json"
        try:
            if (folder / "summary.json").exists():
                shutil.rmtree(folder)  # that one is finished: this is a new load of the same files
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
        """The folder of parts."""
        return self.folder / "parts"

    @property
    def quarantine(self) -> Path:
        """The file of bad lines."""
        return self.folder / QUARANTINE

    def part(self, index: int) -> Path:
        """The file of one chunk's quads."""
        return self.parts / f"{index:05d}.nq"

    def done(self, index: int) -> ChunkResult | None:
        """The figures of a chunk when it is finished."""
        try:
            return ChunkResult(**json.loads((self.parts / f"{index:05d}.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            return None

    def finish(self, index: int, done: ChunkResult) -> None:
        """Mark a chunk as finished; its part is complete on disk by then."""
        write_whole(self.parts / f"{index:05d}.json", json.dumps(asdict(done), ensure_ascii=False).encode())

    def parsed_file(self, index: int) -> Path:
        """The file of a chunk that Spark has parsed."""
        return self.folder / "parsed" / f"{index:05d}.parquet"

    def read_bytes(self) -> int:
        """How many bytes of the sources, packed or plain, are in chunks that are parsed."""
        return sum(
            chunk.end - chunk.start if chunk.end else self.sources[chunk.source].size
            for chunk in self.chunks
            if (self.parts / f"{chunk.index:05d}.json").exists() or self.parsed_file(chunk.index).exists()
        )

    def finished(self) -> Iterator[tuple[Chunk, ChunkResult]]:
        """The finished chunks in order."""
        for chunk in self.chunks:
            done = self.done(chunk.index)
            if done is not None:
                yield chunk, done

    def bad_lines(
        self, finished: Iterable[tuple[Chunk, ChunkResult]] | None = None
    ) -> Iterator[dict[str, Any]]:
        """The bad lines in order, with lines counted in their files; line is None where it is not known.

        Those of all finished chunks, or of given ones.
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
        """Note that the load is in the store, and let the parts go."""
        write_whole(self.folder / "summary.json", json.dumps(summary).encode())
        shutil.rmtree(self.parts, ignore_errors=True)

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


def bad_line_error(bad: dict[str, Any], why: str) -> LoadError:
    """The error of a load that ends because of a bad line."""
    place = f", line {bad['line']}" if bad["line"] else ""
    return LoadError(f"{bad['file']}{place}: {bad['reason']} ({why}; nothing was loaded)")
