"""Prints terms, property paths and triple patterns as SPARQL text, in full or abbreviated as in Turtle.

In abbreviated text, the properties of one subject are grouped and reifiers are written as ``<< >>``. Parsing
the text returns the same patterns in the same order; where ``<< >>`` would change the order, the rdf:reifies
triple is written out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TypeVar, cast

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from . import nodes as n
from .build import CHAIN, fold
from .nodes import PathExpr, Term, TermPattern, TriplePattern, TripleTerm, Var
from .order import XSD
from .query import TemplateQuad
from .reify import REIFIES

Pattern = TriplePattern | n.Path
T = TypeVar("T")

_LOCAL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?")
_RDF_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
_STRING = NamedNode(XSD + "string")
_BARE = {
    NamedNode(XSD + "integer"): re.compile(r"[+-]?[0-9]+"),
    NamedNode(XSD + "decimal"): re.compile(r"[+-]?[0-9]*\.[0-9]+"),
    NamedNode(XSD + "double"): re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.?[0-9]+)[eE][+-]?[0-9]+"),
    NamedNode(XSD + "boolean"): re.compile("true|false"),
}
_PLACEHOLDER = re.compile(r"\$[^$]+\$", re.DOTALL)


class TermPrinter:
    """Prints the terms of one text and records which prefixes the text uses."""

    def __init__(
        self,
        nodes: object,
        prefixes: Mapping[str, str] | None = None,
        *,
        free: bool = False,
        placeholders: bool = False,
    ) -> None:
        """Create a printer of terms; with ``prefixes``, terms are abbreviated as in Turtle.

        ``nodes`` are the algebra nodes of the text to print. A hidden variable (of a blank node) is printed
        as a blank node, or as ``[]`` if it occurs once; with ``free`` it is printed as a variable ``?_1``,
        for texts in which hidden variables may span groups. With ``placeholders``, a string that looks like a
        query parameter is printed with its datatype.
        """
        self._nodes = nodes
        self.used: set[str] = set()
        """The prefixes that the printed text uses."""
        self.abbreviates = prefixes is not None
        self._prefixes = sorted((prefixes or {}).items(), key=lambda item: -len(item[1]))
        self._iris: dict[NamedNode, str] = {}
        self._free = free
        self._placeholders = placeholders
        self._hidden: dict[str, str] = {}

    @cached_property
    def names(self) -> Counter[str]:
        """The number of occurrences of each variable in the printed text."""
        return Counter([each.name for each in parts_of(self._nodes) if isinstance(each, Var)])

    def term(self, term: TermPattern | Term) -> str:
        """Return the text of a term of a pattern."""
        match term:
            case Var():
                return self.var(term)
            case NamedNode():
                return self.iri(term)
            case Literal():
                return self._literal(term) if self.abbreviates else str(term)
            case Triple() | TripleTerm():
                inside = f"{self.term(term.subject)} {self.verb(term.predicate)} {self.term(term.object)}"
                return f"<<( {inside} )>>"
            case BlankNode():
                return str(term)

    def var(self, var: Var) -> str:
        """Return the text of a variable, or of the blank node that a hidden variable stands for."""
        if not var.hidden:
            return f"?{var.name}"
        if not self._free and self.names[var.name] == 1:
            return "[]"
        known = self._hidden.get(var.name)
        if known is None:
            known = self._hidden[var.name] = self._fresh()
        return known

    def _fresh(self) -> str:
        number = len(self._hidden) + 1
        if not self._free:
            return f"_:b{number}"
        prefix = "_"
        while f"{prefix}{number}" in self.names:
            prefix += "_"
        return f"?{prefix}{number}"

    def iri(self, iri: NamedNode) -> str:
        """Return a prefixed name if a declared namespace fits, else the whole IRI."""
        known = self._iris.get(iri)
        if known is None:
            known = self._iris[iri] = self._short(iri.value) or str(iri)
        return known

    def _short(self, iri: str) -> str | None:
        for prefix, namespace in self._prefixes:
            if iri.startswith(namespace) and _LOCAL.fullmatch(iri, len(namespace)):
                self.used.add(prefix)
                return f"{prefix}:{iri[len(namespace) :]}"
        return None

    def _literal(self, literal: Literal) -> str:
        bare = _BARE.get(literal.datatype)
        if bare is not None and bare.fullmatch(literal.value):
            return literal.value
        if literal.language is not None:
            return str(literal)
        if literal.datatype == _STRING:
            placeholder = self._placeholders and _PLACEHOLDER.fullmatch(literal.value)
            return f"{literal}^^{self.iri(literal.datatype)}" if placeholder else str(literal)
        return f"{Literal(literal.value)}^^{self.iri(literal.datatype)}"

    def verb(self, term: NamedNode | Var) -> str:
        """Return the text of a predicate in a triple pattern."""
        return "a" if self.abbreviates and term == _RDF_TYPE else self.term(term)

    # --- property paths

    def path(self, path: PathExpr, level: int = 0) -> str:
        """Return the text of a property path, in brackets if it binds less strongly than ``level``."""
        match path:
            case n.Link(iri):
                return self.verb(iri)
            case n.Alternative():
                options = self.chain(cast(PathExpr, path), _alternatives, n.Alternative)
                return bracketed("|".join(self.path(each, 2) for each in options), 1, level)
            case n.Sequence():
                steps = self.chain(cast(PathExpr, path), _steps, n.Sequence)
                return bracketed("/".join(self.path(each, 3) for each in steps), 2, level)
            case n.Inverse(inner):
                return bracketed(f"^{self.path(inner, 4)}", 3, level)
            case n.ZeroOrMore(inner):
                return bracketed(f"{self.path(inner, 5)}*", 4, level)
            case n.OneOrMore(inner):
                return bracketed(f"{self.path(inner, 5)}+", 4, level)
            case n.ZeroOrOne(inner):
                return bracketed(f"{self.path(inner, 5)}?", 4, level)
            case n.NegatedSet(forward, inverse):
                members = [*map(self.verb, forward), *(f"^{self.verb(iri)}" for iri in inverse)]
                return f"!{members[0]}" if len(members) == 1 else f"!({'|'.join(members)})"

    def chain(
        self, node: T, operands: Callable[[T], tuple[T, T] | None], combine: Callable[[T, T], T]
    ) -> list[T]:
        """Return the operands of a chain that, when printed in a row, are parsed as ``node`` again.

        Oxigraph's parser does not balance long chains of an operator, so the chain's operands are those of
        the left-deep tree.
        """
        spine: list[T] = []
        rest = node
        while (pair := operands(rest)) is not None:
            rest, right = pair
            spine.append(right)
        spine.append(rest)
        spine.reverse()
        if not self.abbreviates:
            return spine
        leaves: list[T] = []
        stack = [node]
        while stack:
            each = stack.pop()
            pair = operands(each)
            if pair is None:
                leaves.append(each)
            else:
                stack += (pair[1], pair[0])
        if len(leaves) > CHAIN and fold(combine, leaves) == node:
            return leaves
        if len(spine) <= CHAIN:
            return spine
        pair = operands(node)
        assert pair is not None
        return list(pair)


def parts_of(node: object) -> list[object]:
    """Return all nodes, expressions, variables and terms inside algebra nodes, in no particular order.

    The terms of inline data (VALUES) are left out, because there may be many.
    """
    found: list[object] = []
    stack = [node]
    while stack:
        each = stack.pop()
        found.append(each)
        if isinstance(each, tuple):
            stack.extend(each)
        elif isinstance(each, n.Values):
            stack.extend(each.vars)
        elif type(each).__module__ in _MODULES:
            stack.extend([getattr(each, name) for name in getattr(each, "__slots__", ())])
    return found


_MODULES = (n.__name__, TemplateQuad.__module__)


def bracketed(text: str, own: int, level: int) -> str:
    """Return the text of an expression, in brackets if its strength ``own`` is below ``level``."""
    return f"({text})" if own < level else text


def _alternatives(path: PathExpr) -> tuple[PathExpr, PathExpr] | None:
    return (path.left, path.right) if isinstance(path, n.Alternative) else None


def _steps(path: PathExpr) -> tuple[PathExpr, PathExpr] | None:
    return (path.left, path.right) if isinstance(path, n.Sequence) else None


# --- triple patterns


def triple_lines(terms: TermPrinter, run: Sequence[Pattern]) -> list[str]:
    """Return the statements of a run of triple patterns, each ended by a dot."""
    if terms.abbreviates:
        return _Run(terms, run).lines()
    lines = []
    for each in run:
        verb = terms.path(each.path) if isinstance(each, n.Path) else terms.term(each.predicate)
        lines.append(f"{terms.term(each.subject)} {verb} {terms.term(each.object)} .")
    return lines


class _Run:
    """A run of triple patterns, printed with ``<< >>`` where possible.

    A *unit* of such a run is the reifying triple of a ``<< >>``, preceded by the units nested inside it.
    """

    def __init__(self, terms: TermPrinter, run: Sequence[Pattern]) -> None:
        self._terms = terms
        self._count = terms.names
        self._run = run
        # The hidden reifiers of the run with the index of their rdf:reifies triple. A reifier of two triples
        # cannot be written as ``<< >>``.
        self._own: dict[str, int] = {}
        twice: set[str] = set()
        for place, item in enumerate(run):
            if self._reifies(item):
                assert isinstance(item.subject, Var)
                twice.update({item.subject.name} & self._own.keys())
                self._own[item.subject.name] = place
        for name in twice:
            del self._own[name]

    @staticmethod
    def _reifies(item: Pattern) -> bool:
        return (
            isinstance(item, TriplePattern)
            and isinstance(item.subject, Var)
            and item.subject.hidden
            and item.predicate == REIFIES
            and isinstance(item.object, (TripleTerm, Triple))
        )

    def lines(self) -> list[str]:
        """Return the lines of all statements of the run."""
        lines: list[str] = []
        place = 0
        # Of nested ``<< >>`` that start at the same index, the outermost is used.
        starts = {self._start(own): own for own in sorted(self._own.values())}
        while place < len(self._run):
            own = starts.get(place)
            statement = None if own is None else self._reified_statement(own)
            if statement is None:
                subject = self._run[place].subject
                properties, place = self._properties(subject, place)
                statement = self._terms.term(subject), properties, place
            lines += _statement(statement[0], statement[1])
            place = statement[2]
        return lines

    def _reified_statement(self, own: int) -> tuple[str, list[str], int] | None:
        """Return ``<< s p o >> p2 o2`` as subject, properties, end; None if the reifier is used elsewhere."""
        subject = self._run[own].subject
        assert isinstance(subject, Var)
        properties, end = self._properties(subject, own + 1)
        used = sum(self._run[place].subject == subject for place in range(own + 1, end))
        if used + 1 != self._count[subject.name]:
            return None
        return self._reified(own), properties, end

    def _properties(self, subject: TermPattern, place: int) -> tuple[list[str], int]:
        """Return the properties of a subject from an index of the run on, and the index after them."""
        found: list[str] = []
        last: object = None
        while place < len(self._run) and self._run[place].subject == subject:
            item = self._run[place]
            place += 1
            text = self._terms.term(item.object) if not isinstance(item.object, Var) else None
            if isinstance(item.object, Var):
                own = self._object_unit(item.object, place)
                if own is None:
                    text = self._terms.var(item.object)
                else:
                    text, place = self._reified(own), own + 1
            verb = item.path if isinstance(item, n.Path) else item.predicate
            if found and verb == last:
                found[-1] += f" , {text}"
            else:
                found.append(f"{_verb(self._terms, item)} {text}")
            last = verb
        return found, place

    # --- << >>

    def _object_unit(self, var: Var, place: int) -> int | None:
        """Return the ``<< >>`` unit of a variable if it starts right after a triple with this object."""
        own = self._inner(var)
        return own if own is not None and self._start(own) == place else None

    def _inner(self, term: TermPattern) -> int | None:
        """Return the index of a reifier's rdf:reifies triple if the reifier occurs in one other place."""
        if not isinstance(term, Var) or self._count[term.name] != 2:
            return None
        return self._own.get(term.name)

    def _parts(self, own: int) -> tuple[int | None, int | None, int]:
        """Return the units nested in a ``<< >>`` unit as subject and object, and where the whole starts."""
        start = own
        term = self._run[own].object
        if not isinstance(term, TripleTerm):
            return None, None, start
        inside: list[int | None] = []
        for part in (term.object, term.subject):
            unit = self._inner(part)
            fits = unit is not None and unit == start - 1
            inside.append(unit if fits else None)
            if fits:
                assert unit is not None
                start = self._start(unit)
        return inside[1], inside[0], start

    def _start(self, own: int) -> int:
        return self._parts(own)[2]

    def _reified(self, own: int) -> str:
        term = self._run[own].object
        assert isinstance(term, (TripleTerm, Triple))
        subject, obj, _ = self._parts(own)
        texts = [
            self._terms.term(part) if unit is None else self._reified(unit)
            for part, unit in ((term.subject, subject), (term.object, obj))
        ]
        predicate: NamedNode | Var = term.predicate
        return f"<< {texts[0]} {self._terms.verb(predicate)} {texts[1]} >>"


def _statement(subject: str, properties: list[str]) -> list[str]:
    if not properties:
        return [f"{subject} ."]
    lines = [f"{subject} {properties[0]}", *(f"  {each}" for each in properties[1:])]
    return [f"{line} ;" for line in lines[:-1]] + [f"{lines[-1]} ."]


def _verb(terms: TermPrinter, item: Pattern) -> str:
    return terms.path(item.path) if isinstance(item, n.Path) else terms.verb(item.predicate)
