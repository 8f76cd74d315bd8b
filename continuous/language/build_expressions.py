# ruff: noqa: D102  # each method is named for the grammar rule whose node it makes
"""Grammar rules of expressions and terms to syntax nodes."""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer, v_args

from . import syntax as s
from .positions import at, depth


@v_args(inline=True)
class ExpressionRules(Transformer[Token, s.Unit]):
    """The rules of expressions, aggregates and terms."""

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
        """``?a -1*2``: the sign belongs to the first factor of the product, which keeps the value."""
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

    def exists(self, word: Token, group: s.Group) -> s.ExistsText:
        return s.ExistsText(group, negated=False, at=at(word))

    def not_exists(self, no: Token, word: Token, group: s.Group) -> s.ExistsText:
        return s.ExistsText(group, negated=True, at=at(no))

    def set_function(self, name: Token, distinct: Token | None, argument: s.Expression) -> s.SetFunction:
        return s.SetFunction(
            name.upper(), argument, distinct is not None, None, None, at(name), depth(argument)
        )

    def count_all(self, name: Token, distinct: Token | None, star: Token) -> s.SetFunction:
        return s.SetFunction("COUNT", None, distinct is not None, None, None, at(name), 1)

    def group_concat(
        self, name: Token, distinct: Token | None, argument: s.Expression, separator: Any
    ) -> s.SetFunction:
        return s.SetFunction(
            "GROUP_CONCAT", argument, distinct is not None, separator, None, at(name), depth(argument)
        )

    def percentile(self, name: Token, distinct: Token | None, argument: Any, parameter: Any) -> s.SetFunction:
        return s.SetFunction(
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
