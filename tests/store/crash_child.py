"""A process that writes until it is killed, by itself at a named point or by its parent; run by test_crash.

Arguments: folder, point (or ``-``), how many times the point is passed before the kill, number of threads.
Prints ``ack <thread> <number> <version>`` for each acknowledged commit.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore

PREFIX = "PREFIX ex: <http://e/>\n"


def step(thread: int, number: int) -> str:
    """Counts a thread's counter up, moves a blank node, and leaves a trace in a graph of the thread."""
    return PREFIX + (
        f"DELETE {{ ex:t{thread} ex:n ?old }} INSERT {{ ex:t{thread} ex:n {number} }}"
        f" WHERE {{ OPTIONAL {{ ex:t{thread} ex:n ?old }} }} ;\n"
        f"DELETE {{ ?b ex:of ex:t{thread} }} INSERT {{ [] ex:of ex:t{thread} ; ex:at {number} }}"
        f" WHERE {{ OPTIONAL {{ ?b ex:of ex:t{thread} }} }} ;\n"
        f"INSERT DATA {{ GRAPH ex:g{thread} {{ ex:s{number} ex:p {number} }} }}"
    )


def main(folder: str, point: str, passes: int, threads: int) -> None:
    seen = 0

    def reached(name: str) -> None:
        nonlocal seen
        if name == point:
            seen += 1
            if seen > passes:
                os.kill(os.getpid(), signal.SIGKILL)

    store = QuadStore.open(Path(folder), StoreOptions(reached=reached))
    out = threading.Lock()

    def write(thread: int) -> None:
        number = 0
        while True:
            found = store.reader.solutions(PREFIX + f"SELECT ?n {{ ex:t{thread} ex:n ?n }}")[1]
            number = int(found[0][0].value) + 1 if found else 1
            commit = store.writer.update(step(thread, number))
            with out:
                print(f"ack {thread} {number} {commit.version}", flush=True)
            if number % 40 == 0 and thread == 0:
                store.committer.checkpoint()

    writers = [threading.Thread(target=write, args=(thread,), daemon=True) for thread in range(threads)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
