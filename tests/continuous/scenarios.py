"""Reads and runs the scenario files of tests/scenarios: a query, what happens, what is told.

# name: room_of_a_reading              header: comments
dialect cqels                          option lines come before the query
option output "changes"                a member of the registration, as JSON
stream <s> {"lateness": "2s"}          a declared stream
static :x1 :in :r1 .                   background data, Turtle or TriG
query
SELECT ...                             up to the next blank line
                                       then actions; the indented lines below one are all that it tells
@2s :x1 :temp 20 .                     push one element (Turtle; `:` is http://example.org/) at 2 s
@2s <s2> :x1 :temp 20 .                the same on a named stream; else on the only one of the query
& 3s :x2 :temp 21 .                    one more element in the push of the line before
tick 5s                                a heartbeat on every stream of the query, or on the one named
update INSERT DATA { ... }             a commit
  + @2s :r1 20                         insert, at 2 s, a row
  - @5s :r1 20                         delete
  = @5s :r1 20                         a row of an answer; `= @5s` alone is an empty answer
  progress 6s 9s 4                     an event for a run of empty windows
  answer true                          ASK
  revises 1                            the event below it revises event 1
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyoxigraph import RdfFormat, parse

from quadrill.app.describing.queries import describe
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Engine, EngineSettings, MakeEvaluator, Registration
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.documents.times import duration_ms
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.results import term_json

PREFIXES = "@prefix : <http://example.org/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


@dataclass
class Action:
    """One line of what happens, and what it must tell."""

    line: int
    verb: str
    rest: str
    more: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)


@dataclass
class Scenario:
    """One file."""

    path: Path
    dialect: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    streams: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    static: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    query: str = ""
    initial: list[str] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)


def read(path: Path) -> Scenario:
    """Parse a scenario file."""
    scenario = Scenario(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if not line.strip() or line.startswith("#"):
            continue
        if line.strip() == "query":
            text = []
            while number < len(lines) and lines[number].strip():
                text.append(lines[number])
                number += 1
            scenario.query = "\n".join(text)
        elif line[0].isspace():
            place = scenario.actions[-1].expected if scenario.actions else scenario.initial
            place.append(line.strip())
        elif not scenario.query:
            _option(scenario, line)
        elif line.startswith("&"):
            scenario.actions[-1].more.append(line[1:].strip())
        elif line.startswith("@"):
            scenario.actions.append(Action(number, "@", line[1:].strip()))
        else:
            verb, _, rest = line.partition(" ")
            scenario.actions.append(Action(number, verb, rest.strip()))
    return scenario


def _option(scenario: Scenario, line: str) -> None:
    word, _, rest = line.partition(" ")
    name, _, value = rest.partition(" ")
    match word:
        case "dialect":
            scenario.dialect = rest.strip()
        case "option":
            scenario.options[name] = json.loads(value)
        case "setting":
            scenario.settings[name] = json.loads(value)
        case "stream":
            scenario.streams.append((_iri(name), json.loads(value)))
        case "static":
            scenario.static.append(rest)
        case _:
            raise ValueError(f"{scenario.path.name}: unknown line {line!r}")


def run(scenario: Scenario, make_evaluator: MakeEvaluator | None = None) -> None:
    """Run a scenario and compare what is told after every action."""
    clock = ManualClock(0)
    store = QuadStore.open(None, StoreOptions(clock_ms=clock.now_ms))
    settings = EngineSettings(threaded=False, **scenario.settings)
    engine = Engine(store, None, clock=clock, settings=settings, make_evaluator=make_evaluator)
    engine.start()
    try:
        for iri, options in scenario.streams:
            engine.streams.declare(iri, **options)
        if scenario.static:
            quads = parse(input=PREFIXES + "\n".join(scenario.static), format=RdfFormat.TRIG)
            store.writer.apply(add=list(quads))
        document = {"name": "q", "query": _prologue(scenario) + scenario.query, "dialect": scenario.dialect}
        engine.queries.register(Registration.from_json(document | scenario.options))
        subscription = engine.queries.feed("q").subscribe(0)
        streams = [stream["iri"] for stream in describe(engine, "q")["streams"]]
        told = _told(subscription.take(), scenario)
        assert told == _wanted(scenario.initial), f"{scenario.path.name}, at registration"
        for action in scenario.actions:
            _do(action, engine, store, streams)
            told = _told(subscription.take(), scenario)
            where = f"{scenario.path.name}:{action.line} {action.verb} {action.rest}"
            assert told == _wanted(action.expected), where
            assert describe(engine, "q")["error"] is None
    finally:
        engine.stop()
        store.close()


def _prologue(scenario: Scenario) -> str:
    return "" if re.search(r"\bPREFIX\s+:", scenario.query) else "PREFIX : <http://example.org/>\n"


def _do(action: Action, engine: Engine, store: QuadStore, streams: list[str]) -> None:
    match action.verb:
        case "@":
            lines = []
            stream = None
            for text in (action.rest, *action.more):
                time, _, rest = text.partition(" ")
                rest = rest.strip()
                if match := re.match(r"<[^>]*>\s+(?=[:<_])", rest):
                    if rest[match.end() :].count(" ") and _is_stream(rest, streams):
                        stream, rest = _iri(match[0].strip()), rest[match.end() :]
                quads = parse(input=PREFIXES + rest, format=RdfFormat.TRIG)
                data = "".join(f"{quad} .\n" for quad in quads)
                lines.append(json.dumps({"at": duration_ms(time, "at"), "data": data}))
            engine.streams.push(
                PushCall(stream or streams[0], "application/x-ndjson"), "\n".join(lines).encode()
            )
        case "tick":
            time, _, rest = action.rest.partition(" ")
            for stream in [_iri(rest.strip())] if rest.strip() else streams:
                engine.streams.heartbeat(stream, duration_ms(time, "tick"))
        case "update":
            store.writer.update("PREFIX : <http://example.org/>\n" + action.rest)
            engine.sync()
        case "pause":
            engine.queries.patch("q", {"state": "paused"})
        case "resume":
            engine.queries.patch("q", {"state": "running"})
        case "refresh":
            engine.queries.refresh("q")
        case _:
            raise ValueError(f"unknown action {action.verb!r}")


def _is_stream(rest: str, streams: list[str]) -> bool:
    return any(rest.startswith(f"<{stream}>") or _iri(rest.split()[0]) == stream for stream in streams)


def _iri(text: str) -> str:
    inner = text.strip("<>")
    return inner if ":" in inner else "http://localhost/" + inner


def _told(events: list[Any], scenario: Scenario) -> list[tuple[Any, ...]]:
    """What the feed told, like the expectations: the order of rows counts where the query orders."""
    found: list[tuple[Any, ...]] = []
    ordered = "ORDER BY" in scenario.query.upper()
    for event in events:
        document = json.loads(event.data)
        if event.kind == "progress":
            found.append(("progress", document["from"], document["to"], document["skipped"]))
            continue
        if "revises" in document:
            found.append(("revises", document["revises"]))
        if "boolean" in document:
            found.append(("boolean", document["at"], document["boolean"]))
            continue
        sign = {"insert": "+", "delete": "-", "answer": "=", "error": "error"}[event.kind]
        if sign == "error":
            found.append(("error", document["error"]))
            continue
        if "quads" in document:
            rows = [_quad_row(quad) for quad in parse(input=document["quads"], format=RdfFormat.N_QUADS)]
        else:
            rows = [
                tuple(json.dumps(row.get(name), sort_keys=True) for name in document["head"]["vars"])
                for row in document["results"]["bindings"]
            ]
        if not rows:
            found.append((sign, document["at"]))
        found.extend((sign, document["at"], *row) for row in (rows if ordered else sorted(rows)))
    return found


def _wanted(lines: list[str]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    block: list[tuple[Any, ...]] = []
    for line in lines:
        words = line.split(None, 2)
        if words[0] in ("+", "-", "="):
            at = duration_ms(words[1].lstrip("@"), "at")
            block.append((words[0], at, *(_row(words[2]) if len(words) > 2 else ())))
            continue
        found.extend(block)
        block = []
        if words[0] == "progress":
            start, end, number = line.split()[1:]
            found.append(("progress", duration_ms(start, "from"), duration_ms(end, "to"), int(number)))
        elif words[0] == "answer":
            found.append(("boolean", duration_ms(words[1].lstrip("@"), "at"), words[2] == "true"))
        elif words[0] == "revises":
            found.append(("revises", int(words[1])))
    return found + block


def _row(text: str) -> tuple[str, ...]:
    """The terms of a row, `UNDEF` for unbound ones."""
    document = PREFIXES + f"<urn:row> <urn:is> ( {text.replace('UNDEF', '<urn:undef>')} ) ."
    quads = list(parse(input=document, format=RdfFormat.TURTLE))
    rest = {quad.subject: quad.object for quad in quads if quad.predicate.value == _RDF + "rest"}
    first = {quad.subject: quad.object for quad in quads if quad.predicate.value == _RDF + "first"}
    node: Any = next(quad.object for quad in quads if quad.predicate.value == "urn:is")
    found = []
    while node in first:
        found.append(_term(first[node]))
        node = rest[node]
    return tuple(found)


def _term(term: Any) -> str:
    if getattr(term, "value", None) == "urn:undef":
        return "null"
    return json.dumps(term_json(term), sort_keys=True)


def _quad_row(quad: Any) -> tuple[str, ...]:
    return tuple(_term(term) for term in (quad.subject, quad.predicate, quad.object))
