"""Static parts are read by one Spark process at a time. No Spark is needed."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from quadrill.continuous.algebra.build import UNIT
from quadrill.continuous.algebra.columnar import Graphs
from quadrill.continuous.spark import SparkEngine, evaluate
from quadrill.store.quads.quad_store import QuadStore


def test_patterns_are_read_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meta.json").write_text(json.dumps({"version": 0, "quads": "quads-0", "predicates": {}}))
    at_once, most, lock = 0, 0, threading.Lock()

    def tables(*_given: object) -> tuple[int, list[list[object]]]:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.05)
        with lock:
            at_once -= 1
        return 0, [[]]

    monkeypatch.setattr(evaluate, "spark_missing", lambda: None)
    monkeypatch.setattr(evaluate.SparkTables, "tables", tables)
    engine, store = SparkEngine(tmp_path), QuadStore.open(None)
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(engine.rows, store, 0, UNIT, (), Graphs(), None) for _ in range(4)]
        assert [each.result() for each in asked] == [[]] * 4
    assert most == 1
