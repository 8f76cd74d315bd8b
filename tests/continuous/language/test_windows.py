# ruff: noqa: E501  # tables of query texts, one a line
"""Windows, durations, registration clauses and dialect detection."""

from __future__ import annotations

from typing import Any

import pytest
from pyoxigraph import NamedNode

from quadrill.continuous.algebra.nodes import (
    Bgp,
    Filter,
    Graph,
    Join,
    LeftJoin,
    Minus,
    Project,
    Union,
    Var,
    Window,
)
from quadrill.continuous.algebra.query import ContinuousQuery, WindowSpec
from quadrill.continuous.language import detect_dialect, parse
from quadrill.store.errors import QueryTextError, UnsupportedError


def spec(window: str, dialect: Any = "cqels") -> WindowSpec:
    return with_window(window, dialect).windows[0].spec


def text_with(window: str, dialect: Any = "cqels") -> str:
    """A query whose one window is this."""
    texts = {
        "cqels": f"SELECT * {{ STREAM <s> {window} {{ ?a ?b ?c }} }}",
        "rspql": f"SELECT * FROM NAMED WINDOW <w> ON <s> {window} {{ WINDOW <w> {{ ?a ?b ?c }} }}",
        "csparql": f"SELECT * FROM STREAM <s> {window} {{ ?a ?b ?c }}",
    }
    return texts[dialect]


def with_window(window: str, dialect: Any = "cqels") -> ContinuousQuery:
    return parse(text_with(window, dialect), dialect=dialect)


@pytest.mark.parametrize(
    ("dialect", "window", "expected"),
    [
        ("cqels", "[NOW]", WindowSpec("now")),
        ("cqels", "[now]", WindowSpec("now")),
        ("cqels", "[ALL]", WindowSpec("all")),
        ("cqels", "[TRIPLES 7]", WindowSpec("triples", count=7)),
        ("cqels", "[RANGE 3s]", WindowSpec("range", width_ms=3000)),
        ("cqels", "[RANGE 3s SLIDE 1s]", WindowSpec("grid", width_ms=3000, slide_ms=1000)),
        ("cqels", "[RANGE 3s STEP 1s]", WindowSpec("grid", width_ms=3000, slide_ms=1000)),
        ("cqels", "[range 3s tumbling]", WindowSpec("grid", width_ms=3000, slide_ms=3000)),
        (
            "cqels",
            "[RANGE 3s SLIDE 1s STARTING AT 500]",
            WindowSpec("grid", width_ms=3000, slide_ms=1000, t0_ms=500),
        ),
        ("cqels", "[RANGE 9s TO 4s]", WindowSpec("past", width_ms=9000, past_ms=4000)),
        ("cqels", "[RANGE 9s TO 0]", WindowSpec("range", width_ms=9000)),
        (
            "cqels",
            "[range 9s to 4s slide 1s]",
            WindowSpec("grid", width_ms=9000, slide_ms=1000, past_ms=4000),
        ),
        (
            "cqels",
            "[NOW - 9 S TO NOW - 4 S SLIDE 1 S]",
            WindowSpec("grid", width_ms=9000, slide_ms=1000, past_ms=4000),
        ),
        ("cqels", "[NOW - 9s TO NOW SLIDE 1s]", WindowSpec("grid", width_ms=9000, slide_ms=1000)),
        ("cqels", "[NOW-9s TO NOW-4s]", WindowSpec("past", width_ms=9000, past_ms=4000)),
        (
            "rspql",
            "[FROM NOW-PT9S TO NOW-PT4S STEP PT1S]",
            WindowSpec("grid", width_ms=9000, slide_ms=1000, past_ms=4000),
        ),
        ("rspql", "[RANGE PT9S TO PT4S]", WindowSpec("grid", width_ms=9000, slide_ms=5000, past_ms=4000)),
        (
            "csparql",
            "[RANGE 9s TO 4s STEP 1s]",
            WindowSpec("grid", width_ms=9000, slide_ms=1000, past_ms=4000),
        ),
        ("rspql", "[RANGE PT10S STEP PT5S]", WindowSpec("grid", width_ms=10_000, slide_ms=5_000)),
        ("rspql", "[RANGE PT10S]", WindowSpec("grid", width_ms=10_000, slide_ms=10_000)),
        ("rspql", "[RANGE 10 STEP 2]", WindowSpec("grid", width_ms=10, slide_ms=2)),
        ("rspql", "[ELEMENTS 5]", WindowSpec("elements", count=5, step=1)),
        ("rspql", "[ELEMENTS 5 STEP 3]", WindowSpec("elements", count=5, step=3)),
        ("rspql", "[SLIDING 10 STEP 2]", WindowSpec("grid", width_ms=10, slide_ms=2)),
        ("rspql", "[TUMBLING 10]", WindowSpec("grid", width_ms=10, slide_ms=10)),
        ("csparql", "[RANGE 5s STEP 1s]", WindowSpec("grid", width_ms=5000, slide_ms=1000)),
        ("csparql", "[RANGE 5s TUMBLING]", WindowSpec("grid", width_ms=5000, slide_ms=5000)),
        ("csparql", "[RANGE TRIPLES 30]", WindowSpec("batch", count=30)),
    ],
)
def test_a_window_is_read_as_its_table_says(dialect: str, window: str, expected: WindowSpec) -> None:
    assert spec(window, dialect) == expected


@pytest.mark.parametrize(
    ("duration", "milliseconds"),
    [
        ("1ms", 1), ("3s", 3000), ("2m", 120_000), ("1h", 3_600_000), ("1d", 86_400_000), ("1h30m15s", 5_415_000),
        ("1h 30m", 5_400_000), ("0.5s", 500), ("250MS", 250), ("30 seconds", 30_000), ("30 minutes", 1_800_000),
        ("1 hour 30 minutes", 5_400_000), ("2 days", 172_800_000), ("1 second", 1000), ("5 millis", 5), ("3 mins", 180_000),
        ("PT10S", 10_000), ("PT1M30.5S", 90_500), ("P1DT2H", 93_600_000), ("P2W", 1_209_600_000), ("pt1h", 3_600_000),
        ("2000", 2000), ('"PT10S"^^<http://www.w3.org/2001/XMLSchema#duration>', 10_000),
    ],
)  # fmt: skip
def test_durations_in_every_spelling(duration: str, milliseconds: int) -> None:
    assert spec(f"[RANGE {duration}]").width_ms == milliseconds


@pytest.mark.parametrize(
    ("duration", "milliseconds"), [("1ns", 1), ("1500000ns", 2), ("0.0015s", 2), ("PT0.0001S", 1)]
)
def test_parts_of_a_millisecond_are_rounded_up_with_a_warning(duration: str, milliseconds: int) -> None:
    query = with_window(f"[RANGE {duration}]")
    assert query.windows[0].spec.width_ms == milliseconds
    assert [warning for warning in query.warnings if "rounded up" in warning]


@pytest.mark.parametrize(
    ("window", "dialect", "told"),
    [
        (
            "[RANGE 5]",
            "cqels",
            "the window width of 5 has no unit, so it is 5 ms: write 5s for seconds, or 5ms",
        ),
        ("[RANGE 10s SLIDE 2]", "cqels", "the window slide of 2 has no unit"),
        ("[RANGE 10 STEP PT2S]", "rspql", "write PT10S for seconds, or PT0.01S"),
        ("[RANGE 30 STEP 2s]", "csparql", "write 30s for seconds, or 30ms"),
    ],
)
def test_a_duration_without_a_unit_is_milliseconds_with_a_warning(
    window: str, dialect: str, told: str
) -> None:
    query = with_window(window, dialect)
    assert len([warning for warning in query.warnings if told in warning]) == 1


@pytest.mark.parametrize("duration", ["P1Y", "P1M", "P", "PT", '"soon"', "10 weeks", "-5s"])
def test_what_is_no_duration_is_refused(duration: str) -> None:
    with pytest.raises(QueryTextError):
        with_window(f"[RANGE {duration}]")


def test_lateness_belongs_to_the_declaration() -> None:
    assert with_window("[RANGE 3s LATENESS 2s]").windows[0].lateness_ms == 2000
    assert with_window("[NOW LATENESS 0s]").windows[0].lateness_ms == 0
    assert with_window("[NOW]").windows[0].lateness_ms is None


@pytest.mark.parametrize(
    "instant",
    ["1704067200000", '"2024-01-01T00:00:00Z"', '"2024-01-01T00:00:00"', '"2024-01-01T01:00:00+01:00"'],
)
def test_starting_at_takes_milliseconds_and_dates(instant: str) -> None:
    assert spec(f"[RANGE 3s SLIDE 1s STARTING AT {instant}]").t0_ms == 1_704_067_200_000


def test_starting_at_of_the_query_is_apart_from_that_of_a_window() -> None:
    query = parse(
        "REGISTER RSTREAM <out> COMPUTED EVERY PT5S STARTING AT 7000 AS SELECT * "
        "FROM NAMED WINDOW <a> ON <s> [RANGE PT10S] FROM NAMED WINDOW <b> ON <s> [RANGE PT10S STARTING AT 1] "
        "{ WINDOW ?w { ?x ?y ?z } }"
    )
    assert query.emission.t0_ms == 7000 and query.emission.computed_every_ms == 5000
    assert [window.spec.t0_ms for window in query.windows] == [None, 1]


def test_warnings_name_what_may_surprise() -> None:
    assert "never seen" in with_window("[RANGE 3s SLIDE 5s]").warnings[0]
    unused = parse("SELECT * FROM NAMED WINDOW <w> ON <s> [RANGE PT1S] { ?a ?b ?c }")
    assert unused.warnings == (
        "The window <http://localhost/w> on <http://localhost/s> is declared but not used.",
    )
    assert "?v" in parse("SELECT * FROM NAMED <s> [NOW] AS ?v { ?a ?b ?c }").warnings[0]


def test_equal_windows_on_one_stream_are_one_declaration() -> None:
    query = parse(
        "SELECT * { STREAM <s> [NOW] { ?a ?b ?c } STREAM [NOW] <s> { ?d ?e ?a } STREAM <t> [NOW] { ?f ?g ?h } }"
    )
    assert [window.stream.value for window in query.windows] == ["http://localhost/s", "http://localhost/t"]  # type: ignore[union-attr]


def test_both_orders_of_a_stream_block_mean_the_same() -> None:
    first, second = (
        parse("SELECT * { STREAM <s> [NOW] { ?a ?b ?c } }"),
        parse("SELECT * { STREAM [NOW] <s> { ?a ?b ?c } }"),
    )
    assert (first.root, first.windows) == (second.root, second.windows)


def test_a_variable_stream_is_declared_as_such() -> None:
    query = parse("SELECT * { ?room <has> ?s STREAM ?s [NOW] { ?a ?b ?c } }")
    assert query.windows[0].stream == Var("s")
    assert parse("SELECT * { BIND(<t> AS ?s) STREAM ?s [NOW] { ?a ?b ?c } }").windows[0].stream == Var("s")


def test_stream_blocks_stand_wherever_a_pattern_may() -> None:
    block = "{ STREAM <s> [NOW] { ?a ?b ?c } }"
    for text, kind in (
        (f"SELECT * {{ ?a <p> ?x OPTIONAL {block} }}", LeftJoin),
        (f"SELECT * {{ {block} UNION {block} }}", Union),
        (f"SELECT * {{ ?a <p> ?x MINUS {block} }}", Minus),
        (f"SELECT * {{ ?a <p> ?x FILTER NOT EXISTS {block} }}", Filter),
        (f"SELECT * {{ ?a <p> ?x {{ SELECT ?a {block} }} }}", Join),
    ):
        root = parse(text).root
        assert isinstance(root, Project) and isinstance(root.input, kind), text


# --- registration


@pytest.mark.parametrize(
    ("clause", "output", "kind"),
    [("RSTREAM", "rstream", "stream"), ("IStream", "istream", "stream"), ("dstream", "dstream", "stream"), ("STREAM", None, "stream")],
)  # fmt: skip
def test_register_names_the_output_operator(clause: str, output: str | None, kind: str) -> None:
    query = parse(
        f"REGISTER {clause} <out> AS SELECT * FROM NAMED WINDOW <w> ON <s> [RANGE PT1S] {{ WINDOW <w> {{}} }}"
    )
    assert (query.output, query.result.kind, query.result.iri) == (
        output,
        kind,
        NamedNode("http://localhost/out"),
    )


def test_the_prologue_stands_before_register_or_after_as() -> None:
    body = "SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT1S] { WINDOW :w { ?a :p ?b } }"
    before = parse(f"PREFIX : <http://e/> REGISTER STREAM :out AS {body}")
    after = parse(f"REGISTER STREAM :out AS PREFIX : <http://e/> {body}")
    assert before.root == after.root and before.windows == after.windows
    assert before.result.iri == after.result.iri == NamedNode("http://e/out")


def test_csparql_registers_by_bare_name() -> None:
    query = parse(
        "REGISTER QUERY My-Query.1 COMPUTED EVERY 5s AS SELECT * FROM STREAM <s> [RANGE 5s STEP 1s] { ?a ?b ?c }"
    )
    assert (query.result.kind, query.result.name, query.result.iri) == ("query", "My-Query.1", None)
    assert query.emission.computed_every_ms == 5000
    stream = parse(
        "REGISTER STREAM S AS CONSTRUCT { ?a ?b ?c } FROM STREAM <s> [RANGE 5s STEP 1s] { ?a ?b ?c }",
        dialect="csparql",
    )
    assert (stream.result.kind, stream.result.name, stream.form) == ("stream", "S", "construct")


def test_the_report_word_is_kept_and_ticks_other_than_time_are_unsupported() -> None:
    assert (
        with_window("[RANGE 10 STEP 2 REPORT NON_EMPTY_CONTENT TICK TIME_DRIVEN]", "rspql").emission.report
        == "NON_EMPTY_CONTENT"
    )
    both = with_window("[RANGE 10 STEP 2 REPORT ON_WINDOW_CLOSE, NON_EMPTY_CONTENT]", "rspql")
    assert both.emission.report == "ON_WINDOW_CLOSE NON_EMPTY_CONTENT"
    with pytest.raises(UnsupportedError, match="TUPLE_DRIVEN"):
        with_window("[RANGE 10 STEP 2 TICK TUPLE_DRIVEN]", "rspql")


# --- C-SPARQL's merge


MERGED = NamedNode("urn:quadrill:window:merged")


def csparql(body: str, tail: str = "") -> Any:
    return parse(
        f"SELECT * FROM STREAM <s> [RANGE 5s STEP 1s] FROM <g> {{ {body} }} {tail}", dialect="csparql"
    ).root


def test_the_whole_pattern_reads_the_merge_of_all_windows() -> None:
    root = csparql("?a <p> ?b OPTIONAL { ?b <q> ?c } FILTER(?a != ?b)")
    assert isinstance(root, Project) and isinstance(root.input, Window) and root.input.name == MERGED
    assert isinstance(root.input.input, Filter)


def test_graph_blocks_stay_outside_the_merge() -> None:
    root = csparql("?a <p> ?b GRAPH <h> { ?b <q> ?c } FILTER NOT EXISTS { GRAPH <h> { ?c <r> ?a } }")
    filtered = root.input
    assert isinstance(filtered, Filter)
    joined = filtered.input
    assert isinstance(joined, Join)
    assert (
        isinstance(joined.left, Window) and joined.left.name == MERGED and isinstance(joined.left.input, Bgp)
    )
    assert isinstance(joined.right, Graph)


def test_exists_in_having_reads_the_merge_too() -> None:
    query = parse(
        "SELECT ?a FROM STREAM <s> [RANGE 5s STEP 1s] { ?a <p> ?b } GROUP BY ?a HAVING (EXISTS { ?a <q> ?z })",
        dialect="csparql",
    )
    having = query.root.input  # type: ignore[union-attr]
    assert isinstance(having, Filter) and isinstance(having.condition.pattern, Window)  # type: ignore[union-attr]


def test_csparql_without_streams_is_plain() -> None:
    assert isinstance(parse("SELECT * { ?a ?b ?c }", dialect="csparql").root.input, Bgp)  # type: ignore[union-attr]


# --- detection


@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        ("SELECT * { STREAM <s> [NOW] { ?a ?b ?c } }", "cqels"),
        ("select * { stream ?s[now] { ?a ?b ?c } }", "cqels"),
        ("PREFIX : <x:> SELECT * { STREAM :s [NOW] {} }", "cqels"),
        ("SELECT * { STREAM [NOW] :s {} }", "cqels"),
        ("SELECT * FROM NAMED <s>[RANGE 30 seconds] as ?v { GRAPH ?v {} }", "cqels"),
        ("SELECT * FROM NAMED WINDOW <w> ON <s> [RANGE PT1S] {}", "rspql"),
        ("REGISTER RSTREAM <o> AS SELECT * {}", "rspql"),
        ("REGISTER STREAM <o> AS SELECT * {}", "rspql"),
        ("SELECT * FROM STREAM <s> [RANGE 1s STEP 1s] {}", "csparql"),
        ("REGISTER QUERY q AS SELECT * {}", "csparql"),
        ("REGISTER STREAM q AS SELECT * {}", "csparql"),
        ("SELECT * { ?s ?p ?o }", "sparql"),
        ("SELECT * { ?stream ?window ?o } # STREAM <s> [NOW]", "sparql"),
        ("SELECT * { ?s ?p 'FROM STREAM <s>' }", "sparql"),
        ("SELECT * FROM NAMED <g> { GRAPH <FROM#STREAM> { ?s ?p [ ?q ?r ] } }", "sparql"),
    ],
)
def test_the_dialect_is_seen_from_the_words(text: str, dialect: str) -> None:
    assert detect_dialect(text) == dialect


def test_clauses_of_drafts_are_unsupported_by_name() -> None:
    with pytest.raises(UnsupportedError, match="UNDER ENTAILMENT REGIME"):
        parse(
            "REGISTER STREAM <q> UNDER ENTAILMENT REGIME <http://www.w3.org/ns/entailment/RIF> AS SELECT * "
            "FROM NAMED WINDOW <w> ON <s> [RANGE PT1S] { WINDOW <w> { ?a ?b ?c } }"
        )


@pytest.mark.parametrize(
    ("window", "told"),
    [
        ("[RANGE 5s TO 5s]", "a must be greater than b"),
        ("[NOW TO NOW - 5s]", "a must be greater than b"),
        ("[RANGE 5s TO]", "expected"),
        ("[FROM NOW-5s]", "expected TO"),
    ],
)
def test_a_window_of_the_past_begins_before_it_ends(window: str, told: str) -> None:
    with pytest.raises(QueryTextError, match=told):
        with_window(window)
