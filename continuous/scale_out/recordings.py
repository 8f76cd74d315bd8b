"""Recorded files of stream elements: one file, or a folder of complete files.

A folder is given as ``files:FOLDER``. A file's name says its format: ``.ndjson`` or ``.jsonl`` with one
element a line, or an RDF format. Files whose names begin with a dot are still being written and not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from quadrill.store.documents.element_terms import relabel_blank_nodes
from quadrill.store.documents.subject_columns import Statements
from quadrill.store.errors import ReportedError
from quadrill.store.formats import guess_rdf_format
from quadrill.store.pushes.decode import DecodedElement, DecodeOptions, decode

FOLDER = "files:"
"""The beginning of a source or sink that is a folder of files."""
NDJSON = "application/x-ndjson"
_ENDINGS = {".ndjson": NDJSON, ".jsonl": NDJSON}
_OPTIONS = DecodeOptions()
_LINES = 20_000
"""Maximum number of NDJSON lines that are decoded together, which bounds the memory of a large file."""


class RecordingError(ReportedError):
    """Error that a recorded file cannot be read or pushed."""

    code = "recording"


class RecordedElement(NamedTuple):
    """One element of a recording: its event time in milliseconds or None, its line or place, its quads."""

    at: int | None
    line: int
    statements: Statements


def recorded_files(source: str | Path) -> list[Path]:
    """Return the files of a source that is a file or ``files:FOLDER``, in the order of their names.

    Raises:
        RecordingError: the file or folder does not exist.
    """
    text = str(source)
    if not text.startswith(FOLDER):
        return [Path(text)]
    folder = Path(text[len(FOLDER) :])
    if not folder.is_dir():
        raise RecordingError(f"there is no folder {folder}")
    return sorted(each for each in folder.iterdir() if each.is_file() and not each.name.startswith("."))


def media_type_of(file: Path) -> str:
    """Return the media type that the ending of a file's name stands for; raises RecordingError."""
    known = _ENDINGS.get(file.suffix)
    if known is not None:
        return known
    kind = guess_rdf_format(file.name)
    if kind is None:
        raise RecordingError(
            f"the ending of {file} names no known format",
            hint="Name it .ndjson, .nq, .nt, .ttl, .trig or .jsonld.",
        )
    return kind.media_type


def read_elements(file: Path, stream: str) -> Iterator[RecordedElement]:
    """Yield the elements of a recorded file in their order.

    The labels of blank nodes follow from the stream, the name of the file and the line, so a second reading
    gives the same terms.

    Raises:
        RecordingError: the file cannot be read.
        ReportedError: the content of the file is wrong.
    """
    media_type, origin = media_type_of(file), f"{stream} {file.name}"
    line = 0
    for body in _bodies(file, media_type):
        first = line
        for line, each in enumerate(decode(body, media_type, _OPTIONS).elements, first + 1):
            yield RecordedElement(each.at, line, _labelled(each, origin, line))


def recorded_lines(lines: Sequence[bytes], origin: str, numbers: Sequence[int]) -> Iterator[RecordedElement]:
    """Yield the elements of NDJSON lines, one element a line, under the given numbers.

    ``origin`` names the place of the lines; the labels of blank nodes follow from it and the number.
    """
    if lines:
        decoded = decode(b"\n".join(lines), NDJSON, _OPTIONS).elements
        for number, each in zip(numbers, decoded, strict=True):
            yield RecordedElement(each.at, number, _labelled(each, origin, number))


def _labelled(element: DecodedElement, origin: str, line: int) -> Statements:
    return relabel_blank_nodes(element.statements, origin, line) if element.blank else element.statements


def _bodies(file: Path, media_type: str) -> Iterator[bytes]:
    try:
        if media_type != NDJSON:
            yield file.read_bytes()
            return
        with file.open("rb") as lines:
            while chunk := [line for _, line in zip(range(_LINES), lines, strict=False)]:
                yield b"".join(chunk)
    except OSError as error:
        raise RecordingError(f"the file {file} cannot be read: {error.strerror}") from error
