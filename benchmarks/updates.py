"""What exact change sets cost: the same updates on the store and on plain Oxigraph, in one run.

Run: ``python -m benchmarks.updates``. Prints microseconds per update and the ratio.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyoxigraph import Store

from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore

PREFIX = "PREFIX ex: <http://e/>\n"
START = PREFIX + "INSERT DATA { ex:c ex:n 0 }"


def insert(number: int) -> str:
    return PREFIX + f"INSERT DATA {{ ex:s{number} ex:p {number} }}"


def modify(number: int) -> str:
    return (
        PREFIX + "DELETE { ex:c ex:n ?o } INSERT { ex:c ex:n ?n } WHERE { ex:c ex:n ?o BIND(?o + 1 AS ?n) }"
    )


def two_operations(number: int) -> str:
    return PREFIX + "DELETE WHERE { ex:d ex:n ?o } ; INSERT { ex:d ex:n ?n } WHERE { ex:c ex:n ?n }"


def insert_20k(number: int) -> str:
    triples = " ".join(f"ex:x{number}-{each} ex:q {each} ." for each in range(20_000))
    return f"{PREFIX} INSERT DATA {{ {triples} }}"


def modify_20k(number: int) -> str:
    one, other = ("q", "r") if number % 2 == 0 else ("r", "q")
    return PREFIX + f"DELETE {{ ?s ex:{one} ?o }} INSERT {{ ?s ex:{other} ?o }} WHERE {{ ?s ex:{one} ?o }}"


WORK: tuple[tuple[Callable[[int], str], int], ...] = (
    (insert, 500),
    (modify, 500),
    (two_operations, 500),
    (insert_20k, 1),
    (modify_20k, 2),
)


def microseconds(update: Callable[[str], object], text: Callable[[int], str], rounds: int) -> float:
    texts = [text(number) for number in range(rounds)]
    began = time.perf_counter()
    for each in texts:
        update(each)
    return (time.perf_counter() - began) / rounds * 1e6


def main() -> None:
    for name, on_disk, durable in (
        ("memory", False, False),
        ("disk", True, False),
        ("disk, durable", True, True),
    ):
        with tempfile.TemporaryDirectory() as folder:
            plain = Store(str(Path(folder) / "plain")) if on_disk else Store()
            with QuadStore.open(
                Path(folder) / "ours" if on_disk else None, StoreOptions(durable=durable)
            ) as store:
                plain.update(START)
                store.writer.update(START)
                for text, rounds in WORK:
                    ours = microseconds(store.writer.update, text, rounds)
                    theirs = microseconds(plain.update, text, rounds)
                    figures = f"{ours:9.0f} us  plain {theirs:9.0f} us  x{ours / theirs:.1f}"
                    print(f"{name:14} {text.__name__:15} {figures}")
            del plain


if __name__ == "__main__":
    main()
