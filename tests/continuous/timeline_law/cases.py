"""Random cases: streams, queries of every dialect over windows of every kind, and what happens to them."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pyoxigraph import Literal, NamedNode

E = "http://example.org/"
XSD = "http://www.w3.org/2001/XMLSchema#"
IDLE_MS = 5000
Fact: TypeAlias = tuple[NamedNode, NamedNode, NamedNode | Literal]


@dataclass(frozen=True)
class Push:
    """One push: its elements in document order, each with its time."""

    stream: str
    elements: tuple[tuple[int, tuple[Fact, ...]], ...]


@dataclass(frozen=True)
class Beat:
    """A heartbeat."""

    stream: str
    at: int


@dataclass(frozen=True)
class Commit:
    """One update of the store."""

    removed: tuple[Fact, ...]
    added: tuple[Fact, ...]


@dataclass(frozen=True)
class Silence:
    """The wall clock goes on."""

    ms: int


Happening: TypeAlias = Push | Beat | Commit | Silence


@dataclass(frozen=True)
class Window:
    """A window by its place in the text: ``size`` is a width or a count, ``step`` a slide or a count.

    ``past`` is how long ago it ends, ``keys`` are variables of its block.
    """

    number: int
    stream: str
    kind: str
    size: int = 0
    step: int = 0
    past: int = 0
    keys: tuple[str, ...] = ()
    t0: int | None = None
    lateness: int = 0

    def text(self) -> str:
        """As a query text writes it."""
        to = f" TO {self.past}ms" if self.past else ""
        by = " ".join(f"?{key}" for key in self.keys)
        shown = {
            "now": "NOW",
            "all": "ALL",
            "range": f"RANGE {self.size}ms",
            "past": f"RANGE {self.size}ms{to}",
            "grid": f"RANGE {self.size}ms{to} STEP {self.step}ms",
            "session": f"SESSION {self.size}ms" + (f" PARTITION BY {by}" if by else ""),
            "latest": f"LATEST {self.size} BY {by}" + (f" WITHIN {self.step}ms" if self.step else ""),
            "triples": f"TRIPLES {self.size}",
            "elements": f"ELEMENTS {self.size} STEP {self.step}",
            "batch": f"RANGE TRIPLES {self.size}",
        }[self.kind]
        lateness = f" LATENESS {self.lateness}ms" if self.lateness else ""
        return f"[{shown}{lateness}{'' if self.t0 is None else f' STARTING AT {self.t0}'}]"


@dataclass(frozen=True)
class Query:
    """A registration. ``body`` is a query in which ``{1`` and ``{2`` open the blocks of its windows."""

    dialect: str
    windows: tuple[Window, ...]
    body: str
    output: str
    report: str | int
    t0: int | None
    bounds: str | None
    non_empty: bool

    @property
    def open_closed(self) -> bool:
        """True where the registration asks for windows that are open at their start."""
        return self.bounds == "open-closed"

    def text(self) -> str:
        """The text in its dialect."""
        text, clauses = self.body, ""
        for window in self.windows:
            number = window.number
            match self.dialect:
                case "cqels":
                    block = f"STREAM :{window.stream} {window.text()} {{"
                case "rspql":
                    block = f"WINDOW :w{number} {{"
                    clauses += f"FROM NAMED WINDOW :w{number} ON :{window.stream} {window.text()}\n"
                case _:
                    block = "{"
                    clauses += f"FROM STREAM :{window.stream} {window.text()}\n"
            text = text.replace(f"{{{number}", block)
        return f"PREFIX : <{E}>\n" + text.replace("WHERE", clauses + "WHERE", 1)

    def block(self, window: Window) -> str:
        """What stands in the braces of a window."""
        begin = self.body.index(f"{{{window.number}") + 2
        depth = end = 1
        while depth:
            depth += {"{": 1, "}": -1}.get(self.body[begin + end], 0)
            end += 1
        return self.body[begin : begin + end - 1]

    def options(self) -> dict[str, Any]:
        """The members of the registration."""
        report = {"periodic": self.report} if isinstance(self.report, int) else self.report
        members = {"t0": self.t0, "bounds": self.bounds, "non_empty": self.non_empty or None}
        given = {name: value for name, value in members.items() if value is not None}
        return {"dialect": self.dialect, "output": self.output, "report": report, **given}


@dataclass(frozen=True)
class Case:
    """``streams`` are (lateness, policy) by name; each query comes before the happening of its place."""

    streams: dict[str, tuple[int, str]]
    happenings: tuple[Happening, ...]
    queries: tuple[tuple[int, Query], ...]


OVER_ONE = [
    "SELECT ?x ?v WHERE { {1 ?x :p ?v } }",
    "SELECT ?x ?v ?r WHERE { {1 ?x :p ?v } ?x :in ?r }",
    "SELECT ?x ?r WHERE { ?x :in ?r FILTER NOT EXISTS { {1 ?x :p ?v } } }",
    "SELECT ?x ?v ?r WHERE { {1 ?x :p ?v } OPTIONAL { ?x :in ?r } }",
    "SELECT ?x WHERE { ?x :in ?r MINUS { {1 ?x :p ?v } } }",
    "SELECT (COUNT(*) AS ?n) WHERE { {1 ?x :p ?v } }",
    "SELECT ?x (COUNT(?v) AS ?n) (SUM(?v) AS ?t) (MAX(?v) AS ?m) WHERE { {1 ?x :p ?v } } GROUP BY ?x",
    "SELECT ?r (SUM(?v) AS ?t) WHERE { {1 ?x :p ?v } ?x :in ?r } GROUP BY ?r HAVING (SUM(?v) > 2)",
    "SELECT ?x ?v WHERE { {1 ?x :p ?v } } ORDER BY DESC(?v) ?x LIMIT 2",
    "SELECT DISTINCT ?x WHERE { {1 ?x ?p ?v } }",
    "SELECT ?x ?v WHERE { {1 ?x :p ?v FILTER(?v = 1) } }",
    "SELECT ?x ?v WHERE { {1 ?x :p ?v FILTER(?v = 2) } }",
    "SELECT ?v WHERE { {1 :a :p ?v } }",
    "SELECT ?v WHERE { {1 :b :p ?v } }",
    "SELECT ?x ?v WHERE { {1 { ?x :p ?v } UNION { ?x :q ?v } } }",
    "SELECT ?x ?m WHERE { { SELECT ?x (MIN(?v) AS ?m) WHERE { {1 ?x :p ?v } } GROUP BY ?x } ?x :in ?r }",
    "SELECT ?x ?y WHERE { {1 ?x :p+ ?y } }",
    "SELECT ?x ?v ?k WHERE { VALUES (?x ?k) { (:a 1) (:b 2) (UNDEF 3) } {1 ?x :p ?v } }",
    "SELECT ?x ?v (SECONDS(NOW()) AS ?n) WHERE { {1 ?x :p ?v } }",
    "SELECT ?x ?v (?v + 1 AS ?w) WHERE { {1 ?x :p ?v BIND(?v * 2 AS ?d) FILTER(?d > 2) } }",
    "ASK WHERE { {1 ?x :p 1 } }",
    "ASK WHERE { {1 ?x :p ?v } ?x :in ?r }",
]
OVER_TWO = [
    "SELECT ?x ?v ?y WHERE { {1 ?x :p ?v } {2 ?x :q ?y } }",
    "SELECT ?x ?v ?y WHERE { {1 ?x :p ?v } OPTIONAL { {2 ?x :q ?y } } }",
    "SELECT ?x ?v WHERE { {1 ?x :p ?v } MINUS { {2 ?x :q ?y } } }",
    "SELECT ?x ?v WHERE { {1 ?x :p ?v } FILTER NOT EXISTS { {2 ?x :q ?y FILTER(?y > ?v) } } }",
    "SELECT ?x ?v WHERE { {1 ?x :p ?v } FILTER EXISTS { {2 ?x :q ?y } } }",
    "SELECT ?x ?v WHERE { { {1 ?x :p ?v } } UNION { {2 ?x :q ?v } } }",
    "SELECT ?x ?y WHERE { {1 ?x :p 1 } {2 ?y :p 2 } }",
    "SELECT ?x ?v ?y WHERE { {1 ?x :p ?v } {2 ?y :p ?v } }",
    "SELECT ?x (COUNT(*) AS ?n) WHERE { {1 ?x :p ?v } {2 ?x :p ?w } } GROUP BY ?x",
    "SELECT ?x ?m WHERE { { SELECT ?x (MAX(?v) AS ?m) WHERE { {1 ?x :p ?v } } GROUP BY ?x } {2 ?x :q ?y } }",
    "SELECT ?x ?v ?y ?r WHERE { {1 ?x :p ?v } {2 ?x :q ?y } ?x :in ?r }",
    "SELECT ?x ?r WHERE { ?x :in ?r OPTIONAL { {1 ?x :p ?v } } FILTER NOT EXISTS { {2 ?x :q ?y } } }",
    "SELECT (COUNT(*) AS ?n) WHERE { {1 ?x :p ?v } {2 ?y :q ?w } }",
    "ASK WHERE { {1 ?x :p ?v } {2 ?x :q ?y } }",
]
KINDS = {
    "cqels": ["now", "range", "range", "past", "grid", "triples", "all", "session", "latest"],
    "rspql": ["grid", "grid", "grid", "elements", "session", "session"],
    "csparql": ["grid", "grid", "batch", "session"],
}
KEYED = ("session", "latest")
COUNTING = ("elements", "batch")


def fact(subject: str, predicate: str, value: str | int) -> Fact:
    """A triple of short names, and of numbers as objects."""
    integer = NamedNode(XSD + "integer")
    term = NamedNode(E + value) if isinstance(value, str) else Literal(str(value), datatype=integer)
    return NamedNode(E + subject), NamedNode(E + predicate), term


STORED = [fact(x, p, o) for x in "abc" for p, o in (("in", "k"), ("in", "m"), ("p", 1), ("p", 2))]


def random_case(seed: int) -> Case:
    """A case whose answers follow from the semantics alone, always the same one for a seed."""
    chance = random.Random(seed)
    while not _is_settled(case := _case(chance)):
        pass
    return case


def _case(chance: random.Random) -> Case:
    pick = chance.choice
    streams = {"s": (pick([0, 0, 0, 3]), pick(["drop", "drop", "admit"]))}
    if chance.random() < 0.45:
        streams["u"] = (pick([0, 0, 4]), pick(["drop", "admit"]))
    begin = pick([0, 1, 1000, 9_999])
    reached = dict.fromkeys(streams, begin)
    happenings = tuple(_happening(chance, reached) for _ in range(chance.randint(2, 14)))
    queries = [_query(chance, list(streams), begin) for _ in range(pick([1, 1, 2, 4]))]
    places = [0 if chance.random() < 0.6 else chance.randrange(len(happenings)) for _ in queries]
    return Case(streams, happenings, tuple(zip(places, queries, strict=True)))


def _happening(chance: random.Random, reached: dict[str, int]) -> Happening:
    pick, stream, which = chance.choice, chance.choice(list(reached)), chance.random()
    if which < 0.62:
        at, elements = reached[stream], []
        for _ in range(pick([1, 1, 1, 2, 3, 6])):
            at = max(0, at + pick([0, 0, 1, 1, 2, 3, 5, 9, -1, -2, -6, 20]))
            elements.append((at, _facts(chance)))
            reached[stream] = max(reached[stream], at)
        return Push(stream, tuple(elements))
    if which < 0.8:
        at = max(0, reached[stream] + pick([0, 1, 2, 5, 8, 13, -3, 40]))
        reached[stream] = max(reached[stream], at)
        return Beat(stream, at)
    if which < 0.95:
        added = tuple(dict.fromkeys(pick(STORED) for _ in range(chance.randint(1, 2))))
        removed = tuple(dict.fromkeys(pick(STORED) for _ in range(chance.randint(0, 2))))
        return Commit(tuple(each for each in removed if each not in added), added)
    return Silence(pick([1000, 3000, 6000]))


def _facts(chance: random.Random) -> tuple[Fact, ...]:
    pick, found = chance.choice, []
    for _ in range(pick([1, 1, 1, 2, 3])):
        predicate = pick("pppq")
        linked = predicate == "p" and chance.random() < 0.25
        found.append(fact(pick("abc"), predicate, pick("bc") if linked else pick([1, 2, 3])))
    return tuple(dict.fromkeys(found))


def _query(chance: random.Random, streams: list[str], begin: int) -> Query:
    pick = chance.choice
    dialect = pick(["cqels", "cqels", "rspql", "csparql"])
    windows = tuple(
        _window(chance, Window(number, pick(streams), pick(KINDS[dialect])), begin)
        for number in range(1, pick([2, 3, 3]))
    )
    body = pick(OVER_ONE if len(windows) == 1 else OVER_TWO)
    closing = any(each.kind in ("grid", "session", *COUNTING) for each in windows)
    changes, closes = "on-content-change", "on-window-close"
    reports: list[str | int] = [changes] * 5 + ([closes] if closing else [])
    drawn = Query(
        dialect,
        windows,
        body,
        pick(["istream", "dstream", "rstream", "changes"]),
        pick([*(reports if dialect == "cqels" else [closes] * 4 + [changes]), pick([2, 3, 5, 7])]),
        None if chance.random() < 0.8 else max(0, begin + pick([-7, 0, 2, 6])),
        pick([None, None, None, "open-closed"]),
        chance.random() < 0.15,
    )
    return replace(drawn, windows=tuple(_keyed(chance, drawn, each) for each in windows))


def _keyed(chance: random.Random, query: Query, window: Window) -> Window:
    """With keys, where it has some."""
    if window.kind not in KEYED or query.dialect == "csparql":
        return window
    block = query.block(window).partition("FILTER")[0]
    names = sorted(set(re.findall(r"\?(\w+)", block)))
    number = chance.choice([1, 1, 2] if window.kind == "latest" else [0, 1, 1, 2])
    return replace(window, keys=tuple(chance.sample(names, min(number, len(names)))))


def _window(chance: random.Random, made: Window, begin: int) -> Window:
    pick, kind = chance.choice, made.kind
    made = replace(made, lateness=pick([0, 0, 0, 0, 2, 5]))
    if kind in ("now", "all"):
        return made
    if kind == "past":
        past = pick([1, 2, 3, 8])
        return replace(made, size=past + pick([1, 2, 5]), past=past)
    if kind in KEYED:
        size = pick([1, 1, 2, 3] if kind == "latest" else [1, 2, 3, 5, 9])
        return replace(made, size=size, step=pick([0, 0, 1, 3, 8]) if kind == "latest" else 0)
    if kind != "grid":
        return replace(
            made, size=pick([1, 2, 3, 5, 10] if kind == "range" else [1, 2, 3, 5]), step=pick([1, 2, 3])
        )
    width = pick([1, 2, 3, 5, 7, 10])
    t0 = None if chance.random() < 0.8 else max(0, begin + pick([-5, 0, 3]))
    past = 0 if chance.random() < 0.7 else pick([1, 2, 4])
    return replace(made, size=width + past, step=pick([1, 2, 3, 5, 7, width, width]), past=past, t0=t0)


def _is_settled(case: Case) -> bool:
    """False where the semantics leave open what a late element changes."""
    admitting = any(policy == "admit" for _, policy in case.streams.values())
    for _, query in case.queries:
        kinds = {each.kind for each in query.windows}
        if kinds & {*COUNTING} and (len(case.streams) > 1 or admitting or len(kinds) > 1):
            return False
        if admitting and isinstance(query.report, int) and kinds & {"now", "range", "past", "latest"}:
            return False
        # What has closed stays closed, and later ones do not know of it.
        if "session" in kinds and (len(case.streams) > 1 or admitting):
            return False
    return True
