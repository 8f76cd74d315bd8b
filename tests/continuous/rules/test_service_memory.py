"""Inferred quads are stored in the database: between commits, no Python objects stand for them."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

from quadrill.store.quads.options import StoreOptions

from .served import Served, definition, rule

SIZE = 50_000


def test_no_object_for_each_inferred_quad_stays_in_memory(tmp_path: Path) -> None:
    lines = [f":s{number} :p :o{number % 100} ." for number in range(SIZE)]
    with Served(tmp_path, StoreOptions(durable=False)) as served:
        served.update(f"INSERT DATA {{ {' '.join(lines)} }}")
        del lines
        served.put("small", definition(rule("?x :r ?y", "?x :q ?y"), into="http://e/small"))
        gc.collect()
        tracemalloc.start()
        try:
            served.put("one", definition(rule("?y :r ?x", "?x :p ?y"), max_time="600s"))
            served.update("INSERT DATA { :last :p :o1 } ; DELETE DATA { :s7 :p :o7 }")
            gc.collect()
            at_rest, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert served.rules.describe("one")["inferred"] == SIZE
        assert at_rest < 20 * SIZE, at_rest
        # After a commit, the set's dictionary has the terms of the changed quads; its size has a bound.
        tracemalloc.start()
        try:
            served.update("DELETE { ?x :p ?y } WHERE { ?x :p ?y FILTER(STRENDS(STR(?x), '1')) }")
            served.update("INSERT DATA { :last :p :o2 }")
            gc.collect()
            at_rest, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert at_rest < 1_000 * (SIZE // 10), at_rest
