"""The files of the input log: numbered records one behind the other, and what is readable of a damaged file.

record = length (u32) | crc32 (u32) | number (u64) | payload        little endian
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..folder import sync_folder, write_whole

HEAD = struct.Struct("<IIQ")
_MAX_RECORD = 1 << 30
_LOW = 3
"""Bytes of a number that differ between the records of one search; the others are what is searched for."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A place from which a file cannot be read.

    Attributes:
        path: the file.
        offset: where the first record that is not whole begins.
        number: the number that it should have.
        behind: how many whole records are readable behind it.
        next: the number of the first of these; 0 without any.
        last: the number of the last of these; that before ``number`` without any.
    """

    path: Path
    offset: int
    number: int
    behind: int
    next: int
    last: int

    def __str__(self) -> str:
        text = f"{self.path} is damaged behind record {self.number - 1}, at byte {self.offset}"
        return f"{text}; {self.behind} records behind that are readable" if self.behind else text


def record_of(number: int, payload: bytes) -> bytes:
    """A record as it is written."""
    return HEAD.pack(len(payload), zlib.crc32(payload, number & 0xFFFFFFFF), number) + payload


def first_number(path: Path) -> int:
    """The number of a file's first record, which is its name."""
    return int(path.stem)


def records(path: Path) -> Iterator[tuple[int, bytes, int]]:
    """(number, payload, end in the file) up to the first record that is not whole."""
    expected, end = first_number(path), 0
    with path.open("rb") as file:
        while len(head := file.read(HEAD.size)) == HEAD.size:
            length, check, number = HEAD.unpack(head)
            if number != expected or length > _MAX_RECORD:
                return
            payload = file.read(length)
            if len(payload) < length or zlib.crc32(payload, number & 0xFFFFFFFF) != check:
                return
            end += HEAD.size + length
            expected += 1
            yield number, payload, end


def whole_part(path: Path) -> tuple[int, int]:
    """Length of the whole records of a file, and the last one's number."""
    length, last = 0, first_number(path) - 1
    for number, _, end in records(path):
        length, last = end, number
    return length, last


def damage_of(path: Path) -> Damage | None:
    """Where a file cannot be read, and what is readable behind that; None when it is whole."""
    offset, last = whole_part(path)
    data = path.read_bytes()
    if len(data) <= offset:
        return None
    behind = [number for number, _ in records_behind(data, offset, last + 1)]
    return Damage(
        path, offset, last + 1, len(behind), behind[0] if behind else 0, behind[-1] if behind else last
    )


def records_behind(data: bytes, offset: int, number: int) -> Iterator[tuple[int, bytes]]:
    """Whole records (number, payload) behind a place at which the record of a number is not whole.

    Their heads are searched for byte by byte: by the upper bytes of numbers that may follow, then by their
    check sums.
    """
    most = number + (len(data) - offset) // HEAD.size
    offset += 1
    while offset + HEAD.size <= len(data):
        found = _whole_at(data, offset, number, most)
        if found is not None:
            number, payload = found
            yield number, payload
            number, offset = number + 1, offset + HEAD.size + len(payload)
            continue
        offset = _next_place(data, offset + 1, number, most)


def _whole_at(data: bytes, offset: int, least: int, most: int) -> tuple[int, bytes] | None:
    length, check, number = HEAD.unpack_from(data, offset)
    begin = offset + HEAD.size
    if not least <= number <= most or length > len(data) - begin:
        return None
    payload = data[begin : begin + length]
    return (number, payload) if zlib.crc32(payload, number & 0xFFFFFFFF) == check else None


def _next_place(data: bytes, offset: int, least: int, most: int) -> int:
    """The next place at which the head of a record with such a number may stand."""
    uppers = {each >> 8 * _LOW for each in (least, most)}
    choices = b"|".join(re.escape(upper.to_bytes(8 - _LOW, "little")) for upper in sorted(uppers))
    # No record has the number 0, so that a stretch of zeros is no place.
    pattern = re.compile(rb"(?=(?!\0{8}).{%d}(?:%s))" % (_LOW, choices), re.DOTALL)
    hit = pattern.search(data, offset + 8)
    return len(data) if hit is None else hit.start() - 8


def write_records(path: Path, payloads: Mapping[int, bytes]) -> None:
    """Write a file anew, as a whole: for repairs."""
    write_whole(path, b"".join(record_of(number, payloads[number]) for number in sorted(payloads)))
    sync_folder(path.parent)
