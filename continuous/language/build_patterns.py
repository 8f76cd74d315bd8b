# ruff: noqa: D102  # each method is named for the grammar rule whose node it makes
"""Grammar rules of graph patterns, triples and property paths to syntax nodes."""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer, v_args

from . import syntax as s
from .positions import at, depth


@v_args(inline=True)
class PatternRules(Transformer[Token, s.Unit]):
    """The rules of everything between braces."""

    # --- graph patterns

    def group_of_select(self, brace: Token, select: s.SubSelect) -> s.Group:
        return s.Group((select,), at(brace))

    def group_of_elements(self, brace: Token, elements: tuple[s.Element, ...]) -> s.Group:
        return s.Group(elements, at(brace))

    def body(self, *elements: s.Element) -> tuple[s.Element, ...]:
        return elements

    def alternatives(self, *groups: s.Group) -> s.Alternatives:
        return s.Alternatives(groups, groups[0].at)

    def optional(self, word: Token, group: s.Group) -> s.Optional:
        return s.Optional(group, at(word))

    def minus(self, word: Token, group: s.Group) -> s.Without:
        return s.Without(group, at(word))

    def graph(self, word: Token, name: Any, group: s.Group) -> s.GraphBlock:
        return s.GraphBlock(name, group, at(word))

    def service(self, word: Token, silent: Token | None, name: Any, group: s.Group) -> s.ServiceBlock:
        return s.ServiceBlock(name, group, silent is not None, at(word))

    def filter(self, word: Token, condition: s.Expression) -> s.FilterClause:
        return s.FilterClause(condition, at(word))

    def bind(self, word: Token, expression: s.Expression, variable: s.Variable) -> s.BindClause:
        return s.BindClause(expression, variable, at(word))

    def stream(self, word: Token, name: Any, window: s.WindowText, group: s.Group) -> s.StreamBlock:
        return s.StreamBlock(name, window, group, at(word))

    def stream_window_first(
        self, word: Token, window: s.WindowText, name: Any, group: s.Group
    ) -> s.StreamBlock:
        return s.StreamBlock(name, window, group, at(word))

    def window_block(self, word: Token, name: Any, group: s.Group) -> s.WindowBlock:
        return s.WindowBlock(name, group, at(word))

    def values_of_one(self, word: Token, variable: s.Variable, *cells: Any) -> s.ValuesBlock:
        rows = tuple(s.ValuesRow((cell,), cell.at) for cell in cells)
        return s.ValuesBlock((variable,), rows, at(word))

    def values_of_many(
        self, word: Token, variables: tuple[s.Variable, ...], *rows: s.ValuesRow
    ) -> s.ValuesBlock:
        return s.ValuesBlock(variables, rows, at(word))

    def values_vars(self, *variables: s.Variable) -> tuple[s.Variable, ...]:
        return variables

    def values_row(self, paren: Token, *cells: Any) -> s.ValuesRow:
        return s.ValuesRow(cells, at(paren))

    def undef(self, word: Token) -> s.Undef:
        return s.Undef(at(word))

    # --- triples

    def triples(self, *subjects: s.Subject) -> s.Triples:
        return s.Triples(subjects)

    def same_subject(self, node: s.Node, properties: tuple[s.Property, ...] | None) -> s.Subject:
        return s.Subject(node, properties or ())

    def properties(self, *properties: s.Property) -> tuple[s.Property, ...]:
        return properties

    def property(self, verb: Any, objects: tuple[s.Object, ...]) -> s.Property:
        return s.Property(verb, objects, verb.at)

    def objects(self, *objects: s.Object) -> tuple[s.Object, ...]:
        return objects

    def object(self, node: s.Node, *annotations: Any) -> s.Object:
        return s.Object(node, annotations)

    def annotation(self, reifier: s.Reifier) -> s.Reifier:
        return reifier

    def annotation_block(self, brace: Token, properties: tuple[s.Property, ...]) -> s.AnnotationBlock:
        return s.AnnotationBlock(properties, at(brace))

    def reifier(self, tilde: Token, name: Any) -> s.Reifier:
        return s.Reifier(name, at(tilde))

    def nil(self, paren: Token) -> s.Collection:
        return s.Collection((), at(paren))

    def collection(self, paren: Token, *items: s.Node) -> s.Collection:
        return s.Collection(items, at(paren))

    def property_list(self, bracket: Token, properties: tuple[s.Property, ...]) -> s.PropertyList:
        return s.PropertyList(properties, at(bracket))

    def labelled_blank(self, token: Token) -> s.Blank:
        return s.Blank(str(token[2:]), at(token))

    def anonymous_blank(self, bracket: Token) -> s.Blank:
        return s.Blank(None, at(bracket))

    def reified(self, mark: Token, subject: Any, verb: Any, obj: Any, reifier: s.Reifier | None) -> s.Reified:
        return s.Reified(subject, verb, obj, reifier, at(mark))

    def triple_term(self, mark: Token, subject: Any, verb: Any, obj: Any) -> s.TripleTermText:
        return s.TripleTermText(subject, verb, obj, at(mark), depth(subject, obj))

    def a_verb(self, token: Token) -> s.AKeyword:
        return s.AKeyword(at(token))

    # --- property paths

    def path_alternative(self, *options: s.PathText) -> s.PathText:
        return options[0] if len(options) == 1 else s.PathAlternative(options, options[0].at)

    def path_sequence(self, *steps: s.PathText) -> s.PathText:
        return steps[0] if len(steps) == 1 else s.PathSequence(steps, steps[0].at)

    def path_inverse(self, path: s.PathText) -> s.PathInverse:
        return s.PathInverse(path, path.at)

    def path_repeat(self, path: s.PathText, modifier: Token) -> s.PathRepeat:
        return s.PathRepeat(path, str(modifier), path.at)

    def path_negated(self, bang: Token, *members: Any) -> s.PathNegated:
        return s.PathNegated(tuple(member for member in members if member is not None), at(bang))

    def path_forward(self, iri: s.Iri) -> tuple[s.Iri, bool]:
        return iri, False

    def path_backward(self, iri: s.Iri) -> tuple[s.Iri, bool]:
        return iri, True
