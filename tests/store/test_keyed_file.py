"""A file of values that can be made again: what is read from it was put there, whatever happens to it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from quadrill.store.logs.keyed_file import KEY_BYTES, KeyedFile

MINE = b"the program of today"


def key(number: int) -> bytes:
    return number.to_bytes(KEY_BYTES, "big")


def value(number: int) -> bytes:
    return b"value %d " % number * (number + 1)


def filled(path: Path, count: int = 20) -> None:
    file = KeyedFile(path, MINE)
    for number in range(count):
        file.add(key(number), value(number))


def test_values_are_there_after_a_restart(tmp_path: Path) -> None:
    filled(tmp_path / "values")
    file = KeyedFile(tmp_path / "values", MINE)
    assert [file.values.get(key(number)) for number in range(20)] == [value(number) for number in range(20)]
    assert key(99) not in file.known


def test_values_of_another_program_are_not_taken_and_give_way(tmp_path: Path) -> None:
    filled(tmp_path / "values")
    other = KeyedFile(tmp_path / "values", b"the program of tomorrow")
    assert key(1) not in other.known
    other.add(key(1), b"new")
    assert KeyedFile(tmp_path / "values", b"the program of tomorrow").values.get(key(1)) == b"new"
    assert KeyedFile(tmp_path / "values", MINE).values.get(key(1)) is None


@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_damaged_nothing_is_read_that_was_not_put_there(tmp_path: Path, seed: int) -> None:
    path, chance = tmp_path / "values", random.Random(seed)
    filled(path)
    data = bytearray(path.read_bytes())
    if seed % 3 == 0:
        del data[chance.randrange(len(data)) :]
    elif seed % 3 == 1:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    else:
        place = chance.randrange(len(data))
        data[place : place + 16] = chance.randbytes(16)
    path.write_bytes(data)
    file = KeyedFile(path, MINE)
    assert all(file.values.get(key(number)) in (None, value(number)) for number in range(20))
    # What is missing can be put there again.
    for number in range(20):
        file.add(key(number), value(number))
    again = KeyedFile(path, MINE)
    assert [again.values.get(key(number)) for number in range(20)] == [value(number) for number in range(20)]


def test_a_file_that_cannot_be_written_is_told_to_nobody(tmp_path: Path) -> None:
    file = KeyedFile(tmp_path / "no such folder" / "values", MINE)
    file.add(key(1), b"one")
    file.add(key(2), b"two")
    file.keep_only([])
    assert KeyedFile(tmp_path / "no such folder" / "values", MINE).values.get(key(1)) is None


def test_it_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "values"
    file = KeyedFile(path, MINE, most_bytes=1000)
    for number in range(1000):
        file.add(key(number), b"x" * 100)
    assert path.stat().st_size < 1200


def test_values_that_nobody_needs_go(tmp_path: Path) -> None:
    path = tmp_path / "values"
    filled(path, 200)
    size = path.stat().st_size
    file = KeyedFile(path, MINE)
    file.keep_only([key(number) for number in range(150)])
    assert path.stat().st_size == size, "a few that have gone are not worth the writing"
    file.keep_only([key(7), key(8)])
    assert path.stat().st_size < size / 50
    file.add(key(9), value(9))
    again = KeyedFile(path, MINE)
    assert [again.values.get(key(number)) for number in range(6, 10)] == [None, value(7), value(8), value(9)]
    assert not list(tmp_path.glob("*.new"))
