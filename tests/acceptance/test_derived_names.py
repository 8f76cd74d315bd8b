"""Section 4: CONSTRUCT output forms a stream, named by the registration where no REGISTER STREAM names it."""

from __future__ import annotations

from .bench import Bench, ins


def test_a_query_reads_the_stream_that_a_construct_query_of_that_name_makes(bench: Bench) -> None:
    s = bench.stream()
    made = bench.register(f"CONSTRUCT {{ ?p :seen ?l }} WHERE {{ STREAM <{s}> [NOW] {{ ?p :at ?l }} }}")
    assert bench.describe(made)["result_stream"] == f"http://localhost/{made}"
    reader = bench.register(f"SELECT ?p ?l WHERE {{ STREAM <{made}> [NOW] {{ ?p :seen ?l }} }}")
    bench.push(s, 1000, ":bob :at :kitchen .")
    assert bench.feed(reader) == [ins(1000, "bob kitchen")]


def test_a_construct_query_named_like_the_stream_it_reads_makes_none(bench: Bench) -> None:
    s = bench.stream()
    name = s.rsplit("/", 1)[-1]
    text = f"CONSTRUCT {{ ?p :seen ?l }} WHERE {{ STREAM <http://localhost/{name}> [NOW] {{ ?p :at ?l }} }}"
    made = bench.register(text, name=name)
    assert bench.describe(made)["result_stream"] is None
