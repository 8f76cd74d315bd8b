"""The law of windows with entailment: each answer is that of SPARQL over the contents by the definition."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import DefaultGraph, NamedNode, Quad, QuerySolutions, Store

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.lifecycle.rule_queries import follow_rule_sets
from quadrill.continuous.lifecycle.rule_service import QueriesOfSets, RuleService
from quadrill.continuous.streams.push_call import PushCall

from ...examples import examples
from ..test_recovery import Life
from .test_fixpoint_law import BASIC, NODES, VALUES
from .window_oracle import WindowRules, random_window_rules

E = "http://e/"
PREFIX = f"PREFIX : <{E}> "
WINDOW, TYPE = NamedNode(f"{E}w"), NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
GRAPHS = [DefaultGraph(), DefaultGraph(), NamedNode(f"{E}g1")]
START, WIDTH, STEP = 1_000_000, 6, 4

Element = tuple[int, list[Quad]]
Content = Callable[[list[Element], int], list[Element]]
"""Returns the elements in a window at an instant."""


def latest_triples(elements: list[Element], _: int) -> list[Element]:
    """The three newest triples, in the order of elements and of their lines."""
    newest = [(at, [quad]) for at, quads in elements for quad in quads]
    return newest[-3:]


CONTENTS: dict[str, tuple[str, Content]] = {
    "range": (f"[RANGE {WIDTH}ms]", lambda all, t: [each for each in all if t - WIDTH <= each[0] <= t]),
    "now": ("[NOW]", lambda all, t: [each for each in all if each[0] == t]),
    "triples": ("[TRIPLES 3]", latest_triples),
    "step": (
        f"[RANGE PT0.00{WIDTH}S STEP PT0.00{STEP}S]",
        lambda all, t: [each for each in all if t - WIDTH <= each[0] < t],
    ),
}
PATTERNS = {
    "links": ("?x :r ?y", ""),
    "two": ("?x :r ?y . ?y :p ?z", ""),
    "kinds": ("?x a ?y", ""),
    "path": ("?x (:r|:s)+ ?y", ""),
    "joined": ("?x :r ?y", "?y :next ?z"),
    "graphs": ("?x :r ?y GRAPH ?z { ?y :p ?k }", ""),
}


def text_of(window: str, pattern: str, dialect: str) -> str:
    inside, outside = PATTERNS[pattern]
    spec = CONTENTS[window][0]
    if dialect == "cqels":
        return f"{PREFIX}SELECT * WHERE {{ STREAM :s {spec} {{ {inside} }} {outside} }}"
    if dialect == "rspql":
        return (
            f"REGISTER RSTREAM :q AS {PREFIX}SELECT * FROM NAMED WINDOW :w ON :s {spec} "
            f"WHERE {{ WINDOW :w {{ {inside} }} {outside} }}"
        ).replace("REGISTER RSTREAM :q", f"REGISTER RSTREAM <{E}q>")
    return f"REGISTER QUERY q AS {PREFIX}SELECT * FROM STREAM :s {spec} WHERE {{ {inside} }}"


class RuleLife(Life):
    """A server's insides with rule sets, over a folder."""

    def more_settings(self) -> dict[str, Any]:
        self.rules = RuleService(self.store, self.registry, base_iri=E, clock_ms=self.clock.now_ms)
        self.rules.start()
        self.rules.queries = QueriesOfSets(replaced=lambda name: follow_rule_sets(self.engine.parts, name))
        return {"graph_of_set": self.rules.graph_of, "definition_of_set": self.rules.definition_of}


class Run:
    """One random run: a query, a rule set, elements and commits, and the answer by the definition."""

    def __init__(self, folder: Path, rng: random.Random) -> None:
        self.rng = rng
        self.rules: WindowRules = random_window_rules(rng)
        self.life: RuleLife = RuleLife(folder, ManualClock(START))
        self.put_rules()
        self.dialect = rng.choice(("cqels", "cqels", "rspql", "csparql"))
        self.window = rng.choice(("range", "now", "triples")) if self.dialect == "cqels" else "step"
        patterns = [
            each for each in PATTERNS if self.dialect != "csparql" or each not in ("graphs", "joined")
        ]
        self.pattern = rng.choice(patterns)
        output = {"output": "changes"} if self.dialect == "cqels" else {}
        text = text_of(self.window, self.pattern, self.dialect)
        members = {"query": text, "entailment": "r", **output}
        self.life.engine.queries.register(Registration.from_json(members, name="q"))
        self.at = START
        self.elements: list[Element] = []
        self.answer: Counter[str] = Counter()
        self.read = 0

    def put_rules(self) -> None:
        members = {"rules": self.rules.texts, "into": f"{E}into"}
        self.life.rules.put("r", members).run()
        self.life.engine.sync()

    def quad(self, graphs: list[Any]) -> Quad:
        rng, nodes = self.rng, NODES[:4]
        predicate = rng.choice([*BASIC, TYPE, NamedNode(f"{E}r"), NamedNode(f"{E}s")])
        value = rng.choice(VALUES) if predicate.value.endswith("q") else rng.choice(nodes)
        return Quad(rng.choice(nodes), predicate, value, rng.choice(graphs))

    def step(self) -> str:
        chance = self.rng.random()
        if chance < 0.55:
            return self.push()
        if chance < 0.85:
            return self.commit()
        if chance < 0.92:
            self.rules = random_window_rules(self.rng)
            self.put_rules()
            return f"rules {self.rules.texts}"
        if chance < 0.96:
            self.life.checkpoint()
            return "checkpoint"
        before = self.life.told()["q"]
        self.life = self.life.crash()
        assert parsed(self.life.told()["q"])[: len(before)] == parsed(before)
        return "crash"

    def push(self) -> str:
        self.at += self.rng.choice((0, 0, 1, 2, 5))
        # Several triples of one element count in the order in which they are decoded.
        most = 1 if self.window == "triples" else 3
        quads = list(dict.fromkeys(self.quad(GRAPHS) for _ in range(self.rng.randint(1, most))))
        self.elements.append((self.at, quads))
        body = "".join(f"{quad} .\n" for quad in quads)
        self.life.engine.streams.push(PushCall(f"{E}s", "application/n-quads", at=self.at), body.encode())
        return f"push {self.at} {body}"

    def commit(self) -> str:
        present = self.asserted()
        gone = self.rng.sample(present, min(len(present), self.rng.choice((0, 0, 1, 3))))
        added = [self.quad(GRAPHS) for _ in range(self.rng.choice((0, 1, 2)))]
        self.life.store.writer.apply(add=added, remove=gone)
        self.life.engine.sync()
        return f"commit + {added} - {gone}"

    def asserted(self) -> list[Quad]:
        owned = self.life.store.queue.owned
        quads = self.life.store.reader.quads_for_pattern()
        return sorted((quad for quad in quads if quad.graph_name not in owned), key=str)

    # --- the answer by the definition -----------------------------------------------------------

    def expected(self, at: int) -> Counter[str]:
        """Return the rows of the query at an instant over the present version of the store."""
        quads = [quad for _, each in CONTENTS[self.window][1](self.elements, at) for quad in each]
        background = self.life.store.reader.quads_for_pattern()
        content = self.rules.consequences({quad.triple for quad in quads}, background)
        store = Store()
        store.extend(Quad(*triple, WINDOW) for triple in content)
        store.extend(
            Quad(*quad.triple, NamedNode(quad.graph_name.value + "in"))
            for quad in quads
            if isinstance(quad.graph_name, NamedNode)
        )
        default = (DefaultGraph(), NamedNode(f"{E}into"))
        store.extend(Quad(*quad.triple) for quad in background if quad.graph_name in default)
        inside, outside = PATTERNS[self.pattern]
        before, graph, after = inside.partition("GRAPH ?z")
        inner = f"GRAPH :w {{ {before} }} "
        if graph:
            inner += f"GRAPH ?g {after} FILTER(?g != :w) BIND(:g1 AS ?z)"
        if self.dialect == "csparql":  # the merge of the window and the default graph
            store.extend(Quad(*quad.triple, WINDOW) for quad in background if quad.graph_name in default)
        result = store.query(f"{PREFIX}SELECT * {{ {inner} {outside} }}")
        assert isinstance(result, QuerySolutions)
        names = [each.value for each in result.variables if each.value != "g"]
        return Counter(
            " ".join(f"{name}={row[name].value}" for name in sorted(names) if row[name] is not None)  # type: ignore[union-attr]
            for row in result
        )

    def check(self) -> None:
        for event_id, kind, data in self.life.told()["q"]:
            if event_id is None or event_id <= self.read:
                continue
            self.read = event_id
            rows = rows_of(data)
            if kind == "answer":
                assert rows == self.expected(json.loads(data)["at"])
            elif kind == "insert":
                self.answer.update(rows)
            elif kind == "delete":
                self.answer.subtract(rows)
            else:
                raise AssertionError((kind, data))
        if self.dialect == "cqels" and self.elements:
            assert self.answer.total() == (+self.answer).total()
            assert +self.answer == self.expected(self.at)


def rows_of(data: str) -> Counter[str]:
    return Counter(
        " ".join(f"{name}={value['value']}" for name, value in sorted(row.items()))
        for row in json.loads(data)["results"]["bindings"]
    )


def parsed(events: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [(event_id, kind, json.loads(data)["at"], rows_of(data)) for event_id, kind, data in events]


@pytest.mark.parametrize("seed", range(examples(150)))
def test_answers_equal_sparql_over_the_contents_by_the_definition(tmp_path: Path, seed: int) -> None:
    run = Run(tmp_path / "d", random.Random(seed))
    try:
        done = []
        for _ in range(25):
            done.append(run.step())
            try:
                run.check()
            except AssertionError as error:
                history = "\n".join(done)
                raise AssertionError(
                    f"{run.dialect} {run.window} {run.pattern}\n{run.rules.texts}\n{history}"
                ) from error
    finally:
        run.life.stop()
