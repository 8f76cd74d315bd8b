"""The dataset as it was at an earlier version, for replays; killed meanwhile, the store starts whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from quadrill.store.errors import UnsupportedError
from quadrill.store.quads.quad_store import QuadStore

P = "PREFIX : <http://example.org/>\n"
STEPS = [
    "INSERT DATA { :a :p 1 . GRAPH :g { :a :p 1 } }",
    "INSERT DATA { :a :p 2 }",
    "CREATE GRAPH :empty",
    "DELETE DATA { GRAPH :g { :a :p 1 } }",
    "DROP GRAPH :g ; INSERT DATA { [] :q :b }",
    "DELETE WHERE { :a :p ?o } ; INSERT DATA { GRAPH :h { :c :p << :a :p :b >> } }",
    "CLEAR ALL",
]


def contents(store: QuadStore) -> tuple[set[str], set[str]]:
    quads = {str(quad) for quad in store.reader.quads_for_pattern()}
    graphs = {str(row[0]) for row in store.reader.solutions("SELECT ?g { GRAPH ?g {} }")[1]}
    return quads, graphs


def test_every_version_can_be_seen_again_and_forward_leads_back(tmp_path: Path) -> None:
    store = QuadStore.open(tmp_path / "data")
    seen = {0: contents(store)}
    for text in STEPS:
        version = store.writer.update(P + text).version
        seen[version] = contents(store)
    last = store.reader.version
    for version in range(last - 1, -1, -1):
        store.committer.rewind(version)
        assert (store.reader.version, store.log.version) == (version, last)
        assert contents(store) == seen[version]
    for version in range(1, last + 1):
        store.committer.forward(version)
        assert (store.reader.version, contents(store)) == (version, seen[version])
    store.committer.rewind(2)
    store.committer.forward(last)
    assert contents(store) == seen[last]
    assert store.writer.update(P + "INSERT DATA { :z :p 1 }").version == last + 1
    store.close()


@pytest.mark.process
def test_a_process_killed_while_rewound_starts_with_the_newest_version(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    code = f"""
import os, signal
from quadrill.store.quads.quad_store import QuadStore
store = QuadStore.open({str(folder)!r})
for n in range(20):
    store.writer.update(f"INSERT DATA {{{{ <http://a> <http://p> {{n}} }}}}")
store.committer.checkpoint()
store.committer.rewind(3)
store.committer.checkpoint()
assert store.reader.version == 3 and store.reader.quad_count
os.kill(os.getpid(), signal.SIGKILL)
"""
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, env=dict(os.environ)
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    store = QuadStore.open(folder)
    assert store.reader.version == 20
    assert len(store.reader.quads_for_pattern()) == store.reader.quad_count == 20
    store.close()


def test_a_store_in_memory_cannot_rewind() -> None:
    store = QuadStore.open(None)
    store.writer.update(P + STEPS[0])
    with pytest.raises(UnsupportedError):
        store.committer.rewind(0)
    store.close()
