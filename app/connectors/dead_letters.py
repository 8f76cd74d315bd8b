"""Dead letters of one connector (unreadable records, undeliverable events) in a bounded file, newest last."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

log = logging.getLogger("quadrill.connectors")

_MOST_TEXT = 4_000
"""Maximum number of characters that a dead letter stores of the record."""


def _line_of(letter: dict[str, Any]) -> str:
    return json.dumps(letter, ensure_ascii=False, default=str) + "\n"


class DeadLetterFile:
    """The dead letters of one connector, in a file, or only in memory if there is no data folder."""

    def __init__(self, path: Path | None, most: int = 1_000) -> None:
        self._path = path
        self._most = most
        self._lock = threading.Lock()
        self._letters: deque[dict[str, Any]] = deque(self._read(), maxlen=most)
        self._written = len(self._letters)

    def _read(self) -> list[dict[str, Any]]:
        if self._path is None or not self._path.exists():
            return []
        found = []
        for line in self._path.read_bytes().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue  # a crash while a dead letter was written left an incomplete line
        return found[-self._most :]

    def add(self, record: bytes | str, error: str, **members: Any) -> None:
        """Store a record or event, and why it was refused, as a dead letter; a long record is cut."""
        shown = record if isinstance(record, str) else record.decode("utf-8", "replace")
        letter = {"at": time.time_ns() // 1_000_000, "error": error, "record": shown[:_MOST_TEXT], **members}
        if len(shown) > _MOST_TEXT:
            letter["cut"] = {"at": _MOST_TEXT, "of": len(shown)}
        with self._lock:
            self._letters.append(letter)
            if self._path is not None:
                self._write(self._path, letter)

    def _write(self, path: Path, letter: dict[str, Any]) -> None:
        """Append a dead letter to the file; with a full disk the letter stays only in memory."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._written += 1
            if self._written > 2 * self._most:
                part = path.with_suffix(".part")
                part.write_text("".join(map(_line_of, self._letters)), encoding="utf-8")
                part.replace(path)
                self._written = len(self._letters)
            else:
                with path.open("a", encoding="utf-8") as file:
                    file.write(_line_of(letter))
        except OSError as error:
            log.warning("The dead letter could not be written to %s: %s", path, error.strerror or error)

    def list(self) -> list[dict[str, Any]]:
        """Return the stored dead letters of the connector, oldest first."""
        with self._lock:
            return list(self._letters)

    def clear(self) -> int:
        """Delete all dead letters of the connector and return their number."""
        with self._lock:
            forgotten = len(self._letters)
            self._letters.clear()
            self._written = 0
            if self._path is not None:
                self._path.unlink(missing_ok=True)
            return forgotten
