"""Terms, property paths and triple patterns as SPARQL text: whole, or abbreviated as in Turtle.

Abbreviated, one subject's properties stand together and reifiers as ``<< >>``. What is written is read back
as the same patterns in the same order; where ``<< >>`` would change the order, the triple of rdf:reifies is
written itself.
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
    """Writes the terms of one text; knows afterwards which prefixes it used."""

    def __init__(
        self,
        nodes: object,
        prefixes: Mapping[str, str] | None = None,
        *,
        free: bool = False,
        placeholders: bool = False,
    ) -> None:
        """With ``prefixes`` terms are abbreviated as in Turtle: prefixed names, ``a``, bare numbers.

        ``nodes`` are what the text is of, made of algebra. A hidden variable is a blank node, ``[]`` where
        it occurs once; with ``free`` a variable ``?_1``, for texts in which hidden variables may reach over
        groups. With ``placeholders`` a string that looks like a parameter stands with its datatype.
        """
        self._nodes = nodes
        self.used: set[str] = set()
        """The prefixes that stand in the text."""
        self.abbreviates = prefixes is not None
        self._prefixes = sorted((prefixes or {}).items(), key=lambda item: -len(item[1]))
        self._iris: dict[NamedNode, str] = {}
        self._free = free
        self._placeholders = placeholders
        self._hidden: dict[str, str] = {}

    @cached_property
    def names(self) -> Counter[str]:
        """How often the text has each variable."""
        return Counter([each.name for each in parts_of(self._nodes) if isinstance(each, Var)])

    def term(self, term: TermPattern | Term) -> str:
        """A term of a pattern."""
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
        """A variable, or the blank node that a hidden one stands for."""
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
        """A prefixed name where a declared namespace fits, else the whole IRI."""
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
        """A predicate."""
        return "a" if self.abbreviates and term == _RDF_TYPE else self.term(term)

    # --- property paths

    def path(self, path: PathExpr, level: int = 0) -> str:
        """A property path; what binds as strongly as ``level`` stands without brackets."""
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
        """The operands that, written one after the other, are read as ``node`` again (`build.fold`).

        Oxigraph does not fold: for it they are those of the left-deep tree.
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
    """Everything that anything made of algebra nodes is made of: nodes, expressions, variables and terms.

    The terms of inline data are left out: there may be many.
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
    """A text that binds as strongly as ``own``, in brackets where ``level`` binds more strongly."""
    return f"({text})" if own < level else text


def _alternatives(path: PathExpr) -> tuple[PathExpr, PathExpr] | None:
    return (path.left, path.right) if isinstance(path, n.Alternative) else None


def _steps(path: PathExpr) -> tuple[PathExpr, PathExpr] | None:
    return (path.left, path.right) if isinstance(path, n.Sequence) else None


# --- triple patterns


def triple_lines(terms: TermPrinter, run: Sequence[Pattern]) -> list[str]:
    """The statements of a run, each ended by a dot."""
    if terms.abbreviates:
        return _Run(terms, run).lines()
    lines = []
    for each in run:
        verb = terms.path(each.path) if isinstance(each, n.Path) else terms.term(each.predicate)
        lines.append(f"{terms.term(each.subject)} {verb} {terms.term(each.object)} .")
    return lines


class _Run:
    """One run. A *unit* is the reifying triple of a ``<< >>`` with those of the ones inside it, before it."""

    def __init__(self, terms: TermPrinter, run: Sequence[Pattern]) -> None:
        self._terms = terms
        self._count = terms.names
        self._run = run
        # Hidden reifiers and the place of their triple; one that reifies two triples is no ``<< >>``.
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
        """The lines of all statements."""
        lines: list[str] = []
        place = 0
        starts = {self._start(own): own for own in sorted(self._own.values())}  # the outermost unit wins
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
        """``<< s p o >> p2 o2 ; …``: None when the reifier is used elsewhere, too."""
        subject = self._run[own].subject
        assert isinstance(subject, Var)
        properties, end = self._properties(subject, own + 1)
        used = sum(self._run[place].subject == subject for place in range(own + 1, end))
        if used + 1 != self._count[subject.name]:
            return None
        return self._reified(own), properties, end

    def _properties(self, subject: TermPattern, place: int) -> tuple[list[str], int]:
        """The verbs with their objects from a place on, as long as the subject is the same."""
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
        """The unit that starts right behind a triple whose object it is."""
        own = self._inner(var)
        return own if own is not None and self._start(own) == place else None

    def _inner(self, term: TermPattern) -> int | None:
        """The reifying triple of a term that occurs there and in one other place."""
        if not isinstance(term, Var) or self._count[term.name] != 2:
            return None
        return self._own.get(term.name)

    def _parts(self, own: int) -> tuple[int | None, int | None, int]:
        """The units inside a unit, as its subject and object, and the place where the whole starts."""
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
