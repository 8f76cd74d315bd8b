"""Instantiation of CONSTRUCT templates: conversion of solutions to quads."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, Triple

from ..algebra.nodes import Term, TermPattern, TriplePattern, TripleTerm, Var
from ..algebra.query import TemplateQuad
from ..rows import Solution
from ..slices import pausing


class Template:
    """A CONSTRUCT template over given columns (SPARQL 1.1, section 16.2).

    Quads with an unbound variable, or with a term at a position where RDF does not allow it, are left out of
    the result of CONSTRUCT. Each row of a CONSTRUCT gets new blank nodes. Equal rows at the same instant get
    equal blank nodes on re-evaluation, because the labels derive from the query's name, the instant, the row
    and the number of equal rows before it.
    """

    def __init__(self, template: Iterable[TemplateQuad], columns: Sequence[Var], name: str) -> None:
        self.template = tuple(template)
        self._index = {var.name: position for position, var in enumerate(columns)}
        self._name = name

    def quads(self, rows: Sequence[Solution], at_ms: int) -> list[Quad]:
        """Return the distinct quads that the template makes of the rows, in the order of the rows."""
        seen: Counter[Solution] = Counter()
        result: dict[Quad, None] = {}
        for row in pausing(rows):
            seen[row] += 1
            for each in self.template:
                quad = self._quad(each, row, f"{at_ms}\x00{seen[row]}")
                if quad is not None:
                    result[quad] = None
        return list(result)

    def triple_term(self, pattern: TripleTerm, row: Solution) -> Triple | None:
        """Instantiate a triple term that has no blank nodes; None if the row gives no valid triple."""
        return self._triple(pattern, row, "")

    def _quad(self, template: TemplateQuad, row: Solution, place: str) -> Quad | None:
        triple = self._triple(template.triple, row, place)
        if triple is None:
            return None
        if template.graph is None:
            return Quad(triple.subject, triple.predicate, triple.object, DefaultGraph())
        graph = self._term(template.graph, row, place)
        if not isinstance(graph, (NamedNode, BlankNode)):
            return None
        return Quad(triple.subject, triple.predicate, triple.object, graph)

    def _triple(self, pattern: TriplePattern | TripleTerm, row: Solution, place: str) -> Triple | None:
        subject = self._term(pattern.subject, row, place)
        predicate = self._term(pattern.predicate, row, place)
        object_ = self._term(pattern.object, row, place)
        if (
            isinstance(subject, (NamedNode, BlankNode))
            and isinstance(predicate, NamedNode)
            and object_ is not None
        ):
            return Triple(subject, predicate, object_)
        return None

    def _term(self, term: TermPattern | NamedNode, row: Solution, place: str) -> Term | None:
        match term:
            case Var(name):
                if name in self._index:
                    return row[self._index[name]]
                return self._blank_node(name, row, place) if term.hidden else None
            case TripleTerm():
                return self._triple(term, row, place)
            case _:
                return term

    def _blank_node(self, label: str, row: Solution, place: str) -> BlankNode:
        text = "\x00".join([self._name, place, label, *map(str, row)])
        return BlankNode("c" + hashlib.sha256(text.encode()).hexdigest()[:32])
