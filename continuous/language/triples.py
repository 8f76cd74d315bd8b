"""Translation of triples, collections, reifiers and annotations to triple patterns and paths.

Source: SPARQL 1.1, section 18.2.2.3-5 for paths; SPARQL 1.2, section 4.3 for ``<< >>`` and ``{| |}``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyoxigraph import Literal, NamedNode, Triple

from ..algebra import nodes as a
from ..algebra.build import fold
from ..algebra.nodes import TermPattern, TriplePattern, Var
from . import syntax as s
from .context import Context
from .terms import RDF_FIRST, RDF_NIL, RDF_REIFIES, RDF_REST, Terms


class TripleTranslator:
    """Translator of triples to patterns; a blank node label in two basic graph patterns is a fault."""

    def __init__(self, context: Context, terms: Terms, *, template: bool = False) -> None:
        self.context = context
        self.terms = terms
        self._template = template
        self._fresh: dict[str, Var] = {}
        self._blocks = itertools.count(1)
        self._block = 0
        self._labels: dict[str, int] = {}

    def new_block(self) -> None:
        """Begin a new basic graph pattern, in which blank node labels of earlier ones are faults."""
        self._block = next(self._blocks)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Translate the pattern of an EXISTS without ending the basic graph pattern around its FILTER."""
        block = self._block
        self.new_block()
        yield
        self._block = block

    def variable(self, node: s.Variable) -> Var:
        """Return the variable of a syntax node after a check of its name."""
        self.terms.check_name(node.name, node.at)
        if node.name in self.context.window_variables:
            name = node.name
            self.context.fault(f"?{name} names a window; only GRAPH ?{name} {{…}} may use it", node.at)
        return Var(node.name)

    def patterns(self, triples: s.Triples) -> list[TriplePattern | a.Path]:
        """Return the triple patterns and paths of adjacent triples, in text order."""
        out: list[TriplePattern | a.Path] = []
        for subject in triples.subjects:
            term = self.node(subject.node, out)
            if isinstance(term, Literal) and subject.properties:
                at = subject.node.at
                self.context.fault("a literal cannot be the subject of a triple", at)
                continue
            self._properties(term, subject.properties, out)
        return out

    def _properties(
        self, subject: TermPattern, properties: Sequence[s.Property], out: list[TriplePattern | a.Path]
    ) -> None:
        for item in properties:
            for obj in item.objects:
                self._object(subject, item, obj, out)

    def _object(
        self, subject: TermPattern, item: s.Property, obj: s.Object, out: list[TriplePattern | a.Path]
    ) -> None:
        self.context.count_pattern(item.at)
        place = len(out)
        term = self.node(obj.node, out)
        verb = item.verb
        if isinstance(verb, (s.Variable, s.IriReference, s.PrefixedName, s.AKeyword)):
            predicate = self.verb(verb)
            # The triple comes before the triples that its object adds, in the order of the text.
            out.insert(place, TriplePattern(subject, predicate, term))
            if obj.annotations:
                self._annotations(subject, predicate, term, obj.annotations, out)
            return
        if self._template:
            self.context.fault("a template cannot hold a property path", item.at)
            return
        if obj.annotations:
            self.context.fault("only a plain predicate can be annotated, not a property path", item.at)
        out[place:place] = self._path(subject, self.path(verb), term)

    def _annotations(
        self,
        subject: TermPattern,
        predicate: NamedNode | Var,
        obj: TermPattern,
        annotations: Sequence[s.Reifier | s.AnnotationBlock],
        out: list[TriplePattern | a.Path],
    ) -> None:
        reifier: NamedNode | Var | None = None
        for annotation in annotations:
            if isinstance(annotation, s.Reifier):
                reifier = self._reify(subject, predicate, obj, annotation, out)
                continue
            if reifier is None:
                reifier = self._reify(subject, predicate, obj, None, out)
            self._properties(reifier, annotation.properties, out)
            reifier = None

    def _reify(
        self,
        subject: TermPattern,
        predicate: NamedNode | Var,
        obj: TermPattern,
        reifier: s.Reifier | None,
        out: list[TriplePattern | a.Path],
    ) -> NamedNode | Var:
        name = None if reifier is None else reifier.name
        term: NamedNode | Var
        if name is None:
            term = self.context.hidden()
        elif isinstance(name, s.Variable):
            term = self.variable(name)
        elif isinstance(name, s.Blank):
            term = self.blank(name)
        else:
            term = self.terms.iri(name)
        out.append(TriplePattern(term, RDF_REIFIES, self._triple_term(subject, predicate, obj)))
        return term

    # --- terms

    def verb(self, node: s.Variable | s.Iri) -> NamedNode | Var:
        """Return the term of a predicate that is not a path."""
        return self.variable(node) if isinstance(node, s.Variable) else self.terms.iri(node)

    def name(self, node: s.Variable | s.Iri) -> NamedNode | Var:
        """Return the term that names a GRAPH, WINDOW, STREAM or SERVICE."""
        return self.verb(node)

    def node(self, node: s.Node, out: list[TriplePattern | a.Path]) -> TermPattern:
        """Return the term of a syntax node, and append the triples that the node implies to ``out``."""
        match node:
            case s.Variable():
                return self.variable(node)
            case s.IriReference() | s.PrefixedName() | s.AKeyword():
                return self.terms.iri(node)
            case s.LiteralText() | s.Number() | s.Boolean():
                return self.terms.literal(node)
            case s.Blank():
                return self.blank(node)
            case s.TripleTermText():
                return self.triple_term(node, out)
            case s.Reified():
                return self._reified(node, out)
            case s.Collection():
                return self._collection(node, out)
            case s.PropertyList():
                subject = self.context.hidden()
                self._properties(subject, node.properties, out)
                return subject

    def blank(self, node: s.Blank) -> Var:
        """Return the hidden variable that stands for a blank node."""
        if node.label is None:
            return self.context.hidden()
        self.terms.check_name(node.label, node.at)
        if self._template:
            return self._fresh.setdefault(node.label, self.context.hidden())
        block = self._labels.setdefault(node.label, self._block)
        if block != self._block:
            self.context.fault(
                f"the blank node _:{node.label} is used in two basic graph patterns",
                node.at,
                f"Use a variable such as ?{node.label} instead.",
                of_scope=True,
            )
        return Var(f"_:{node.label}")

    def _collection(self, node: s.Collection, out: list[TriplePattern | a.Path]) -> TermPattern:
        if not node.items:
            return RDF_NIL
        cells = [self.context.hidden() for _ in node.items]
        for place, item in enumerate(node.items):
            self.context.count_pattern(node.at)
            at = len(out)
            term = self.node(item, out)
            out.insert(at, TriplePattern(cells[place], RDF_FIRST, term))
            rest: Var | NamedNode = cells[place + 1] if place + 1 < len(cells) else RDF_NIL
            out.append(TriplePattern(cells[place], RDF_REST, rest))
        return cells[0]

    def triple_term(self, node: s.TripleTermText, out: list[TriplePattern | a.Path]) -> a.TripleTerm | Triple:
        """Translate ``<<( s p o )>>`` to a `Triple`, or to a `TripleTerm` if it has variables."""
        subject = self.node(node.subject, out)
        if isinstance(subject, Literal):
            self.context.fault("the subject of a triple term cannot be a literal", node.at)
            subject = self.context.hidden()
        return self._triple_term(subject, self.verb(node.verb), self.node(node.object, out))

    def _triple_term(
        self, subject: TermPattern, predicate: NamedNode | Var, obj: TermPattern
    ) -> a.TripleTerm | Triple:
        if isinstance(subject, NamedNode) and isinstance(predicate, NamedNode):
            if isinstance(obj, (NamedNode, Literal, Triple)):
                return Triple(subject, predicate, obj)
        return a.TripleTerm(subject, predicate, obj)

    def _reified(self, node: s.Reified, out: list[TriplePattern | a.Path]) -> NamedNode | Var:
        self.context.count_pattern(node.at)
        subject = self.node(node.subject, out)
        if isinstance(subject, Literal):
            self.context.fault("the subject of << >> cannot be a literal", node.at)
            subject = self.context.hidden()
        obj = self.node(node.object, out)
        return self._reify(subject, self.verb(node.verb), obj, node.reifier, out)

    # --- paths

    def path(self, node: s.PathText) -> a.PathExpr:
        """Translate a property path to algebra."""
        match node:
            case s.IriReference() | s.PrefixedName() | s.AKeyword():
                return a.Link(self.terms.iri(node))
            case s.PathInverse(path):
                return a.Inverse(self.path(path))
            case s.PathRepeat(path, modifier):
                inner = self.path(path)
                if modifier == "*":
                    return a.ZeroOrMore(inner)
                return a.OneOrMore(inner) if modifier == "+" else a.ZeroOrOne(inner)
            case s.PathSequence(steps):
                return fold(a.Sequence, [self.path(step) for step in self._counted(steps)])
            case s.PathAlternative(options):
                return fold(a.Alternative, [self.path(option) for option in self._counted(options)])
            case s.PathNegated(members):
                forward = tuple(self.terms.iri(iri) for iri, inverse in members if not inverse)
                backward = tuple(self.terms.iri(iri) for iri, inverse in members if inverse)
                return a.NegatedSet(forward, backward)

    def _counted(self, steps: tuple[s.PathText, ...]) -> tuple[s.PathText, ...]:
        """Count the parts of a property path as patterns of the query.

        Parts of a path above the limit on patterns are dropped, because the text is rejected anyway.
        """
        for step in steps[1:]:
            self.context.count_pattern(step.at)
        return steps[: self.context.limits.patterns]

    def _path(self, subject: TermPattern, path: a.PathExpr, obj: TermPattern) -> list[TriplePattern | a.Path]:
        """Translate IRIs, inverses and sequences of a path to triple patterns (SPARQL 1.1, 18.2.2.5)."""
        match path:
            case a.Link(iri):
                return [TriplePattern(subject, iri, obj)]
            case a.Inverse(inner) if not isinstance(obj, Literal):
                return self._path(obj, inner, subject)
            case a.Sequence(left, right):
                middle = self.context.hidden()
                return self._path(subject, left, middle) + self._path(middle, right, obj)
            case _:
                return [a.Path(subject, path, obj)]
