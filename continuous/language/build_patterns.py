"""Grammar callbacks of terms, expressions and graph patterns; the parser calls one for each grammar rule."""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer, v_args

from . import syntax as s


def at(token: Token) -> int:
    """Return the offset of a token's first character in the query text."""
    position = token.start_pos
    return 0 if position is None else position


def depth(*nodes: object) -> int:
    """Return the greatest depth of some syntax nodes plus one; terms have depth 0."""
    return 1 + max((getattr(node, "depth", 0) for node in nodes), default=0)


# Each callback method is named for the grammar rule whose node it makes, so it has no docstring.

# ruff: noqa: D102


@v_args(inline=True)
class ExpressionRules(Transformer[Token, s.Unit]):
    """Callbacks of the rules of expressions, aggregates and terms."""

    # --- expressions

    def disjunction(self, *parts: s.Expression) -> s.Expression:
        return self._chain("||", parts)

    def conjunction(self, *parts: s.Expression) -> s.Expression:
        return self._chain("&&", parts)

    def _chain(self, name: str, parts: tuple[s.Expression, ...]) -> s.Expression:
        if len(parts) == 1:
            return parts[0]
        return s.Operation(name, parts, parts[0].at, depth(*parts), operator=True)

    def comparison(self, left: s.Expression, operator: Token, right: s.Expression) -> s.Operation:
        return s.Operation(str(operator), (left, right), left.at, depth(left, right), operator=True)

    operation = comparison

    def signed_operation(self, left: s.Expression, right: s.Expression) -> s.Operation:
        """Build ``?a -1*2`` as ``?a + (-1*2)``: the sign goes to the first factor, with the same result."""
        return s.Operation("+", (left, right), left.at, depth(left, right), operator=True)

    def is_in(self, left: s.Expression, word: Token, members: tuple[s.Expression, ...]) -> s.Operation:
        return s.Operation("IN", (left, *members), left.at, depth(left, *members), operator=True)

    def is_not_in(
        self, left: s.Expression, no: Token, word: Token, members: tuple[s.Expression, ...]
    ) -> s.Operation:
        return s.Operation("NOT IN", (left, *members), left.at, depth(left, *members), operator=True)

    def expression_list(self, *members: s.Expression | None) -> tuple[s.Expression, ...]:
        return tuple(member for member in members if member is not None)

    def not_(self, bang: Token, operand: s.Expression) -> s.Operation:
        return s.Operation("!", (operand,), at(bang), depth(operand), operator=True)

    def sign(self, sign: Token, operand: s.Expression) -> s.Operation:
        return s.Operation(f"UNARY{sign}", (operand,), at(sign), depth(operand), operator=True)

    def function_call(
        self, iri: s.Iri, paren: Token, distinct: Token | None, *args: Any
    ) -> s.FunctionCallText:
        given = tuple(arg for arg in args if arg is not None)
        return s.FunctionCallText(iri, given, distinct is not None, iri.at, depth(*given))

    def builtin(self, name: Token, *args: Any) -> s.Operation:
        given = tuple(arg for arg in args if arg is not None)
        return s.Operation(name.upper(), given, at(name), depth(*given), operator=False)

    def exists(self, word: Token, group: s.GroupPattern) -> s.ExistsText:
        return s.ExistsText(group, negated=False, at=at(word))

    def not_exists(self, no: Token, word: Token, group: s.GroupPattern) -> s.ExistsText:
        return s.ExistsText(group, negated=True, at=at(no))

    def set_function(self, name: Token, distinct: Token | None, argument: s.Expression) -> s.AggregateCall:
        return s.AggregateCall(
            name.upper(), argument, distinct is not None, None, None, at(name), depth(argument)
        )

    def count_all(self, name: Token, distinct: Token | None, star: Token) -> s.AggregateCall:
        return s.AggregateCall("COUNT", None, distinct is not None, None, None, at(name), 1)

    def group_concat(
        self, name: Token, distinct: Token | None, argument: s.Expression, separator: Any
    ) -> s.AggregateCall:
        return s.AggregateCall(
            "GROUP_CONCAT", argument, distinct is not None, separator, None, at(name), depth(argument)
        )

    def percentile(
        self, name: Token, distinct: Token | None, argument: Any, parameter: Any
    ) -> s.AggregateCall:
        return s.AggregateCall(
            "PERCENTILE",
            argument,
            distinct is not None,
            None,
            parameter,
            at(name),
            depth(argument, parameter),
        )

    # --- terms

    def var(self, token: Token) -> s.Variable:
        return s.Variable(str(token[1:]), at(token))

    def iri_reference(self, token: Token) -> s.IriReference:
        return s.IriReference(token[1:-1], at(token))

    def prefixed_name(self, token: Token) -> s.PrefixedName:
        return s.PrefixedName(str(token), at(token))

    def string_token(self, token: Token) -> s.StringToken:
        return s.StringToken(str(token), at(token))

    def plain_literal(self, string: s.StringToken) -> s.LiteralText:
        return s.LiteralText(string, None, None, string.at)

    def tagged_literal(self, string: s.StringToken, tag: Token) -> s.LiteralText:
        return s.LiteralText(string, str(tag[1:]), None, string.at)

    def typed_literal(self, string: s.StringToken, datatype: s.Iri) -> s.LiteralText:
        return s.LiteralText(string, None, datatype, string.at)

    def number(self, token: Token) -> s.Number:
        return s.Number(str(token), at(token))

    def boolean(self, token: Token) -> s.Boolean:
        return s.Boolean(token.lower(), at(token))


@v_args(inline=True)
class PatternRules(Transformer[Token, s.Unit]):
    """Callbacks of the rules between braces: graph patterns, triples and property paths."""

    # --- graph patterns

    def group_of_select(self, brace: Token, select: s.SubSelect) -> s.GroupPattern:
        return s.GroupPattern((select,), at(brace))

    def group_of_elements(self, brace: Token, elements: tuple[s.Element, ...]) -> s.GroupPattern:
        return s.GroupPattern(elements, at(brace))

    def body(self, *elements: s.Element) -> tuple[s.Element, ...]:
        return elements

    def alternatives(self, *groups: s.GroupPattern) -> s.Alternatives:
        return s.Alternatives(groups, groups[0].at)

    def optional(self, word: Token, group: s.GroupPattern) -> s.Optional:
        return s.Optional(group, at(word))

    def minus(self, word: Token, group: s.GroupPattern) -> s.MinusGroup:
        return s.MinusGroup(group, at(word))

    def graph(self, word: Token, name: Any, group: s.GroupPattern) -> s.GraphBlock:
        return s.GraphBlock(name, group, at(word))

    def service(self, word: Token, silent: Token | None, name: Any, group: s.GroupPattern) -> s.ServiceBlock:
        return s.ServiceBlock(name, group, silent is not None, at(word))

    def filter(self, word: Token, condition: s.Expression) -> s.FilterClause:
        return s.FilterClause(condition, at(word))

    def bind(self, word: Token, expression: s.Expression, variable: s.Variable) -> s.BindClause:
        return s.BindClause(expression, variable, at(word))

    def stream(
        self, word: Token, name: Any, window: s.WindowText, group: s.GroupPattern, time: s.Variable | None
    ) -> s.StreamBlock:
        return s.StreamBlock(name, window, group, at(word), time)

    def stream_window_first(
        self, word: Token, window: s.WindowText, name: Any, group: s.GroupPattern, time: s.Variable | None
    ) -> s.StreamBlock:
        return s.StreamBlock(name, window, group, at(word), time)

    def sequence(self, word: Token, mode: Token | None, *rest: Any) -> s.SequenceBlock:
        return s.SequenceBlock((mode or "").upper() == "SKIP", rest[:-1], rest[-1], at(word))

    def sequence_step(
        self, no: Token | None, word: Token, name: s.Iri, group: s.GroupPattern, time: Any, *repeat: Any
    ) -> s.SequenceStep:
        number = repeat[-1]
        count = None if number is None else s.Number(str(number), at(number))
        begin = at(word if no is None else no)
        return s.SequenceStep(no is not None, word.upper() == "WINDOW", name, group, time, count, begin)

    def window_block(
        self, word: Token, name: Any, group: s.GroupPattern, time: s.Variable | None
    ) -> s.WindowBlock:
        return s.WindowBlock(name, group, at(word), time)

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
