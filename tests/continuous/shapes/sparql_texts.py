"""Queries of SPARQL-based constraints, with the constructs that pre-binding and dependencies must follow."""

from __future__ import annotations

from hypothesis import strategies as st

TEXTS = (
    "SELECT $this ?value WHERE { $this :p ?value }",
    "SELECT $this ?value WHERE { ?value :p $this }",
    "SELECT $this ?value WHERE { $this :p ?x . ?x :q ?value }",
    "SELECT $this ?value WHERE { ?x :q ?value . $this :p ?x . FILTER(isIRI(?x)) }",
    "SELECT $this ?value WHERE { $this :p/:q* ?value }",
    "SELECT $this ?value WHERE { $this !:p ?value }",
    "SELECT $this ?value WHERE { $this :p* ?value }",
    "SELECT $this ?value WHERE { ?value :p?/:q? $this FILTER NOT EXISTS { $this :q* :n1 } }",
    "SELECT $this WHERE { FILTER NOT EXISTS { $this :p ?x } }",
    "SELECT $this ?value WHERE { $this :p ?value FILTER NOT EXISTS { ?value :q ?y . ?y :r $this } }",
    "SELECT $this ?value WHERE { $this :p ?value FILTER EXISTS { ?other :q ?y } }",
    "SELECT $this ?value WHERE { $this :p ?value OPTIONAL { ?value :q ?y } FILTER(!bound(?y)) }",
    "SELECT $this ?value WHERE { $this :p ?x OPTIONAL { ?x :q ?value FILTER(?value != $this) } }",
    "SELECT $this ?value WHERE { OPTIONAL { ?value :q $this } }",
    "SELECT $this ?value WHERE { { $this :p ?value } UNION { $this :q ?x . ?x :r ?value } }",
    "SELECT $this ?value WHERE { { $this :p ?x } UNION { ?x :p $this } ?x :q ?value }",
    "SELECT $this ?value WHERE { $this ?property ?value . ?property :p ?any }",
    "SELECT $this ?value WHERE { $this :p ?value . ?value a ?class . ?class rdfs:subClassOf* :A }",
    "SELECT $this ?value WHERE { $this :q ?y . :n1 :p ?value }",
    "SELECT $this ?value WHERE { $this :p ?x . BIND(?x AS ?z) ?z :q ?value }",
    "SELECT DISTINCT $this ?value WHERE { $this :p ?x . ?value :q ?x }",
    "SELECT $this (COUNT(?x) AS ?value) WHERE { $this :p ?x } GROUP BY $this",
    "SELECT $this ?value WHERE { { SELECT $this (COUNT(?x) AS ?value) WHERE { $this :p ?x . ?x :q ?y } "
    "GROUP BY $this HAVING(COUNT(?x) > 1) } }",
    "SELECT $this ?value WHERE { $this :p ?v . { SELECT $this ?v (COUNT(?y) AS ?value) WHERE "
    "{ ?v :q ?y . FILTER(?y != $this) } GROUP BY $this ?v } }",
    "SELECT $this ?value WHERE { $this :q ?y . { { ?x :p ?value } OPTIONAL { ?value :q ?y } } }",
    "SELECT $this ?value WHERE { $this :r ?v . { :n1 :p ?value OPTIONAL { :n1 :q ?v } } }",
    "SELECT $this ?value WHERE { $this :r ?v . { ?value :p ?w OPTIONAL { ?w :q ?v } "
    "FILTER NOT EXISTS { ?v :p ?z } } }",
    "SELECT $this ?value WHERE { $this :p ?value } ORDER BY DESC(?value) LIMIT 2",
    "SELECT $this ?value WHERE { $this :p ?x . FILTER(?x IN ($this, :n2)) ?x :q ?value }",
    "SELECT $this ?value WHERE { ?a :p ?b . ?b :q ?c . ?c :r $this . ?a :q ?value }",
)


def constraint_of(text: str) -> str:
    """Return a shape in Turtle with a query as its constraint, and with nodes and classes as targets."""
    prefixes = "PREFIX : <http://example.org/> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>"
    return (
        ":S sh:targetNode :n0, :n1, :n2, :n3, :n4 ; sh:targetClass :A ; "
        f"sh:sparql :Query . :Query sh:select '''{prefixes} {text}''' ."
    )


def texts() -> st.SearchStrategy[str]:
    """One of the queries."""
    return st.sampled_from(TEXTS)
