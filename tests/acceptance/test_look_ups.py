"""Static parts that are looked up, by wish or for a limit, over HTTP, and killed in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .bench import Bench, Server, write

PERSONS = "\n".join(f":p{n} :label :l{n} . :p{n} :name :n{n} ." for n in range(20))


def eventually(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + 30
    while not (found := condition()) and time.monotonic() < until:
        time.sleep(0.05)
    return found


@pytest.mark.slow
def test_what_is_looked_up_is_the_same_after_kill_9(tmp_path: Path) -> None:
    config = write(tmp_path, "quadrill.toml", "max_static_rows = 30\n")
    arguments = ("--data", str(tmp_path / "data"), "--config", config)
    server = Server(*arguments)
    try:
        bench = Bench(server)
        bench.update(f"INSERT DATA {{ {PERSONS} }}")
        s = bench.stream()
        text = f"SELECT ?l WHERE {{ STREAM <{s}> [RANGE 10 ms] {{ ?x :p ?v }} ?x :%s ?l }}"
        asked = bench.register(text % "label", output="changes", static_tables="lookup")
        twin = bench.register(text % "label", output="changes", static_tables="table")
        first = bench.register(text % "name", output="changes")
        names = (asked, first, twin)
        for at in range(1, 9):
            bench.push(s, at, f":p{at} :p 1 .")
            bench.update(f"DELETE DATA {{ :p{at} :label :l{at} }} ; INSERT DATA {{ :p{at} :label :m{at} }}")
        many = " ".join(f":q{n} :label :l{n} ." for n in range(2_100))
        version = bench.update(f"INSERT DATA {{ {many} :p8 :label :large }}")
        assert eventually(lambda: bench.describe(twin)["version"] == version), "a table is read anew"
        bench.push(s, 9, ":q7 :p 1 .")
        before = {name: [(event.id, event.raw) for event in bench.events(name)] for name in names}
        parts = {name: bench.describe(name)["static_parts"][0] for name in names}
        assert parts[asked]["looked_up_because"] == "the registration asks for it"
        assert "the limit is 30" in parts[first]["looked_up_because"]
        assert parts[twin]["lookup"] is None
        assert [data for _, data in before[asked]] == [data for _, data in before[twin]]
        server.process.kill()
    finally:
        server.stop()
    server = Server(*arguments)
    try:
        bench = Bench(server)
        for name in names:
            found = [(event.id, event.raw) for event in bench.events(name, len(before[name]))]
            assert found == before[name]
            again = bench.describe(name)["static_parts"][0]
            assert again["looked_up_because"] == parts[name]["looked_up_because"]
        bench.push(s, 10, ":p12 :p 1 .")
        bench.update("INSERT DATA { :p12 :label :late }")
        assert bench.feed(asked)[-2:] == bench.feed(twin)[-2:]
        assert bench.feed(asked)[-1][-1] == ["late"]
    finally:
        assert server.stop() == 0
