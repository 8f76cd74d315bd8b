"""Folders as tar archives, written and read piece by piece; only plain files, by relative names."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

_PIECE = 1 << 20


class ArchiveError(ValueError):
    """The error of an archive that is damaged, or has an entry other than a plain file below the folder."""


def tar_of(folder: Path, last: str) -> Iterator[bytes]:
    """Yield a tar archive of a folder's files; the file ``last`` comes last, as the sign of completeness."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for path in sorted(files, key=lambda path: path == folder / last):
        with path.open("rb") as file:
            info = tarfile.TarInfo(str(path.relative_to(folder)))
            stat = path.stat()
            info.size, info.mtime, info.mode = stat.st_size, int(stat.st_mtime), 0o600
            yield info.tobuf(tarfile.PAX_FORMAT)
            left = info.size
            while left:
                piece = file.read(min(left, _PIECE))
                if not piece:
                    raise ArchiveError(f"{path} has become shorter")
                left -= len(piece)
                yield piece
            yield bytes(-info.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def unpack(pieces: Iterable[bytes], folder: Path) -> None:
    """Write the files of a tar archive into a folder.

    Raises:
        ArchiveError: the input is no tar archive, is cut off, or names a path outside of the folder.
        OSError: the folder for the archive's files cannot be written.
    """
    try:
        with tarfile.open(fileobj=cast(BinaryIO, _Pieces(pieces)), mode="r|") as archive:
            for member in archive:
                path = folder / member.name
                parts = Path(member.name).parts
                if not member.isfile() or Path(member.name).is_absolute() or ".." in parts:
                    raise ArchiveError(f"the archive holds {member.name!r}")
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                source = archive.extractfile(member)
                assert source is not None
                with path.open("xb") as file:
                    while piece := source.read(_PIECE):
                        file.write(piece)
    except tarfile.TarError as error:
        raise ArchiveError(f"the archive cannot be read: {error}") from error


class _Pieces:
    """A file object that reads the pieces of an archive, once."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self._rest = b""

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes of the archive, fewer only at its end."""
        parts, left = [self._rest], size - len(self._rest)
        while left > 0 and (piece := next(self._pieces, None)) is not None:
            parts.append(piece)
            left -= len(piece)
        data = b"".join(parts)
        self._rest = data[size:]
        return data[:size]
