"""The consequences of a window's content by the definition: a naive fixpoint that Oxigraph computes."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from pyoxigraph import NamedNode, Quad, QueryTriples, Store, Triple

from quadrill.continuous.rules.rule import Rule, parse_rules
from quadrill.continuous.rules.strata import negated_dependency, strata
from quadrill.store.errors import QueryTextError

PREFIX = "PREFIX : <http://e/> "
_CONTENT = NamedNode("http://e/content")

# Each body, with the same body once for each triple pattern that the content may match: in [ ].
BODIES: dict[str, Sequence[str]] = {
    "?x :p ?y": ["[?x :p ?y]"],
    "?x :p ?y . ?y :p ?z": ["[?x :p ?y] ?y :p ?z", "?x :p ?y . [?y :p ?z]"],
    "?x :r ?y . ?y :r ?z": ["[?x :r ?y] ?y :r ?z", "?x :r ?y . [?y :r ?z]"],
    "?x :next ?y . ?y :r ?z": ["[?x :next ?y] ?y :r ?z", "?x :next ?y . [?y :r ?z]"],
    "?x :r ?y . ?y :s ?x": ["[?x :r ?y] ?y :s ?x", "?x :r ?y . [?y :s ?x]"],
    "?x :s ?x": ["[?x :s ?x]"],
    "?x :s ?y . :a :r ?y": ["[?x :s ?y] :a :r ?y", "?x :s ?y . [:a :r ?y]"],
    "?x a ?c . ?c :next ?y": ["[?x a ?c] ?c :next ?y", "?x a ?c . [?c :next ?y]"],
    "?x ?y ?z . ?y :next ?w": ["[?x ?y ?z] ?y :next ?w", "?x ?y ?z . [?y :next ?w]"],
    "?x :r ?y . ?x :q ?v FILTER(?v > 0)": [
        "[?x :r ?y] ?x :q ?v FILTER(?v > 0)",
        "?x :r ?y . [?x :q ?v] FILTER(?v > 0)",
    ],
    "?x :q ?v BIND(?v + 1 AS ?y)": ["[?x :q ?v] BIND(?v + 1 AS ?y)"],
    "?x :p ?k . ?k :q ?v BIND(CONCAT(STR(?v), '!') AS ?y)": [
        "[?x :p ?k] ?k :q ?v BIND(CONCAT(STR(?v), '!') AS ?y)",
        "?x :p ?k . [?k :q ?v] BIND(CONCAT(STR(?v), '!') AS ?y)",
    ],
    "?x :next+ ?y": ["?x :next* ?m . [?m :next ?n] ?n :next* ?y"],
    "?x :next* ?y": ["?x :next* ?m . [?m :next ?n] ?n :next* ?y"],
    "?x :r+ ?y": ["?x :r* ?m . [?m :r ?n] ?n :r* ?y"],
    "?x :p? ?y . ?x :next ?z": ["[?x :p ?y] ?x :next ?z", "?x :p? ?y . [?x :next ?z]"],
    "?x (:p|^:next)/:r ?y": [
        "[?x :p ?m] ?m :r ?y",
        "[?m :next ?x] ?m :r ?y",
        "?x (:p|^:next) ?m . [?m :r ?y]",
    ],
    "?x !(:p|:next) ?y": ["[?x ?m ?y] FILTER(?m NOT IN (:p, :next))"],
    "{ ?x :p ?y } UNION { ?x :r ?y . ?y :p ?z }": [
        "[?x :p ?y]",
        "[?x :r ?y] ?y :p ?z",
        "?x :r ?y . [?y :p ?z]",
    ],
    "?x :r ?y FILTER EXISTS { ?y :p ?z }": [
        "[?x :r ?y] FILTER EXISTS { ?y :p ?z }",
        "?x :r ?y FILTER EXISTS { [?y :p ?z] }",
    ],
    "?x :r ?y FILTER NOT EXISTS { ?y :p ?x }": ["[?x :r ?y] FILTER NOT EXISTS { ?y :p ?x }"],
    "?x :r ?y MINUS { ?x :next ?y }": ["[?x :r ?y] MINUS { ?x :next ?y }"],
    "?x :p ?z OPTIONAL { ?z :next ?y }": [
        "[?x :p ?z] OPTIONAL { ?z :next ?y }",
        "?x :p ?z . [?z :next ?y]",
    ],
    "{ SELECT ?x (COUNT(?z) AS ?y) { ?x :p ?z } GROUP BY ?x }": [
        "{ SELECT ?x (COUNT(?z) AS ?y) { ?x :p ?z } GROUP BY ?x } FILTER EXISTS { [?x :p ?member] }",
    ],
    "VALUES (?x ?y) { (:a :b) (:b UNDEF) } ?y :r ?z": ["VALUES (?x ?y) { (:a :b) (:b UNDEF) } [?y :r ?z]"],
    "?x :r ?y GRAPH :g1 { ?y :p ?z }": ["[?x :r ?y] GRAPH :g1 { ?y :p ?z }"],
    "?x :r ?y GRAPH ?g { ?y :p ?z }": [
        "[?x :r ?y] GRAPH ?g { ?y :p ?z } FILTER(?g != <http://e/content>)",
    ],
}
HEADS = [
    "?x :r ?y",
    "?y :r ?x",
    "?x :s ?y",
    "?x :t ?y",
    "?x :s ?x",
    "?x a :C",
    "?x :p ?y",
    "?x :next :a",
    "?x :r ?y . ?y :s ?x",
    "?y a ?x",
]


@dataclass(frozen=True, slots=True)
class WindowRules:
    """A rule set for windows, and the texts of the naive evaluation by rule."""

    texts: list[str]
    rules: list[Rule]
    marked: list[list[str]]

    def consequences(self, content: Iterable[Triple], background: Collection[Quad]) -> set[Triple]:
        """Return the least set that the definition of the consequences of a content gives, with the content.

        Patterns outside of GRAPH match all quads of the background, and GRAPH those of its named graphs.
        """
        store = Store()
        store.extend(each for quad in background for each in (quad, Quad(*quad.triple)))
        found = set(content)
        for stratum in strata(self.rules):
            new = found
            while new:
                store.extend(quad for each in found for quad in (Quad(*each), Quad(*each, _CONTENT)))
                derived: set[Triple] = set()
                for text in (text for number in stratum for text in self.marked[number]):
                    result = store.query(text)
                    assert isinstance(result, QueryTriples)
                    derived.update(result)
                new = derived - found
                found |= new
        return found


def window_rules(rules: Sequence[tuple[str, str]]) -> WindowRules:
    """Return a rule set of heads and bodies."""
    texts = [f"{PREFIX}CONSTRUCT {{ {head} }} WHERE {{ {body} }}" for head, body in rules]
    marked = [
        [
            f"{PREFIX}CONSTRUCT {{ {head} }} WHERE {{ {each} }}".replace("[", " GRAPH :content { ").replace(
                "]", " } "
            )
            for each in BODIES[body]
        ]
        for head, body in rules
    ]
    return WindowRules(texts, parse_rules(texts, base_iri="http://e/"), marked)


def random_window_rules(rng: random.Random) -> WindowRules:
    """Return one to five rules that a window can have."""
    while True:
        try:
            found = window_rules(
                [(rng.choice(HEADS), rng.choice(list(BODIES))) for _ in range(rng.randint(1, 5))]
            )
            strata(found.rules)
        except QueryTextError:
            continue
        if negated_dependency(found.rules) is None:
            return found
