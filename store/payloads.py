"""Storage of fetched documents by the digest of their bytes, so that equal contents are stored once.

A fetched document may differ when fetched again, so recovery needs the stored content. The journal refers to
a fetched content by digest; a content stays until neither the journal nor a checkpoint may need it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path

from .errors import StoreUnwritableError
from .folder import sync_folder


class Payloads:
    """Fetched documents by digest of their bytes, in a folder or, without a folder, in memory.

    Thread-safe.
    """

    def __init__(self, folder: Path | None) -> None:
        """Store contents in a folder, which the first content creates.

        Args:
            folder: the folder with one file per content; None keeps contents in memory.
        """
        self._folder = folder
        self._held: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def put(self, content: bytes) -> str:
        """Store the bytes of a fetched document durably and return their digest.

        Raises:
            StoreUnwritableError: the fetched content cannot be written.
        """
        digest = hashlib.sha256(content).hexdigest()
        if self._folder is None:
            with self._lock:
                self._held[digest] = content
            return digest
        path = self._folder / digest
        if not path.exists():
            try:
                self._write(path, content)
            except OSError as error:
                raise StoreUnwritableError(f"{path} cannot be written: {error.strerror}") from error
        return digest

    def get(self, digest: str) -> bytes | None:
        """Return the stored bytes of a digest; None if they are missing or damaged."""
        if self._folder is None:
            return self._held.get(digest)
        try:
            content = (self._folder / digest).read_bytes()
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == digest else None

    def keep_only(self, digests: Iterable[str]) -> None:
        """Delete every stored content whose digest is not in ``digests``."""
        kept = set(digests)
        if self._folder is None:
            with self._lock:
                self._held = {digest: held for digest, held in self._held.items() if digest in kept}
            return
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.name not in kept:
                    path.unlink(missing_ok=True)

    def _write(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{threading.get_ident()}.new")
        try:
            with draft.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
        sync_folder(path.parent)
