"""The callbacks of the grammars: each rule's children become one node of `syntax.py`.

The parser calls a method by the name of its rule or alias at the moment the rule is complete, so there
is no parse tree between text and syntax tree, and no recursion however deep the text is.
"""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer, v_args

from . import syntax as s


def _depth(*nodes: Any) -> int:
    return 1 + max((getattr(node, "depth", 0) for node in nodes), default=0)


@v_args(inline=True)
class SyntaxBuilder(Transformer[Token, s.Unit]):
    """Step from rule to node; `getattr` also answers for rules that a dialect imported from the core."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("sparql__"):
            return getattr(self, name.removeprefix("sparql__"))
        raise AttributeError(name)

    # --- the whole

    def unit(self, *parts: Any) -> s.Unit:
        declarations, query = parts[0], parts[-1]
        register = parts[1] if len(parts) == 3 else None
        if register is None:
            return s.Unit(declarations, None, query)
        clause, more = register
        return s.Unit(declarations + more, clause, query)

    def prologue(self, *declarations: s.Declaration) -> tuple[s.Declaration, ...]:
        return declarations

    def base_declaration(self, iri: Token) -> s.Declaration:
        return s.Declaration("base", "", iri[1:-1], _at(iri))

    def prefix_declaration(self, prefix: Token, iri: Token) -> s.Declaration:
        return s.Declaration("prefix", prefix[:-1], iri[1:-1], _at(prefix))

    def version_declaration(self, version: Token) -> s.Declaration:
        return s.Declaration("version", "", version[1:-1], _at(version))

    def register(self, word: Token, kind: Token | None, target: Any, *rest: Any) -> Any:
        every: s.DurationText | None = None
        starting: s.InstantText | None = None
        timing, declarations = rest[0], tuple(rest[1:])
        if isinstance(timing, tuple):
            every, starting = timing
        elif isinstance(timing, s.InstantText):
            starting = timing
        name = str(target) if isinstance(target, Token) else None
        iri = None if isinstance(target, Token) else target
        word_kind = None if kind is None else kind.upper()
        return s.Register(word_kind, iri, name, every, starting, _at(word)), declarations

    def computed_every(self, word: Token, every: s.DurationText, starting: s.InstantText | None) -> Any:
        return every, starting

    # --- query forms

    def select_query(self, select: s.SelectClause, datasets: Any, where: s.Group, modifiers: Any, values: Any) -> s.Query:
        return s.Query("select", datasets, where, modifiers, values, select.at, select=select)

    def construct_query(self, word: Token, template: Any, datasets: Any, where: Any, modifiers: Any, values: Any) -> s.Query:
        return s.Query("construct", datasets, where, modifiers, values, _at(word), template=template)

    def construct_short(self, word: Token, datasets: Any, triples: Any, modifiers: Any, values: Any) -> s.Query:
        elements = () if triples is None else (triples,)
        return s.Query("construct", datasets, s.Group(elements, _at(word)), modifiers, values, _at(word))

    def describe_query(self, word: Token, terms: Any, datasets: Any, where: Any, modifiers: Any, values: Any) -> s.Query:
        return s.Query("describe", datasets, where, modifiers, values, _at(word), describe=terms)

    def ask_query(self, word: Token, datasets: Any, where: Any, modifiers: Any, values: Any) -> s.Query:
        return s.Query("ask", datasets, where, modifiers, values, _at(word))

    def sub_select(self, select: s.SelectClause, where: s.Group, modifiers: Any, values: Any) -> s.SubSelect:
        return s.SubSelect(select, where, modifiers, values)

    def select_clause(self, word: Token, mode: Token | None, items: Any) -> s.SelectClause:
        return s.SelectClause(None if mode is None else mode.upper(), items, _at(word))

    def everything(self, star: Token) -> None:
        return None

    def listed(self, *items: Any) -> tuple[Any, ...]:
        return tuple(s.SelectItem(item, None) if isinstance(item, s.Variable) else item for item in items)

    def described(self, *terms: Any) -> tuple[Any, ...]:
        return terms

    def select_as(self, expression: s.Expression, variable: s.Variable) -> s.SelectItem:
        return s.SelectItem(variable, expression)

    def template(self, body: Any) -> tuple[s.TemplateGraph, ...]:
        return body

    def template_body(self, triples: Any) -> tuple[s.TemplateGraph, ...]:
        return () if triples is None else (s.TemplateGraph(None, triples),)

    def template_with_graphs(self, first: Any, *rest: Any) -> tuple[s.TemplateGraph, ...]:
        graphs = [] if first is None else [s.TemplateGraph(None, first)]
        for word, name, inside, after in zip(rest[0::4], rest[1::4], rest[2::4], rest[3::4], strict=True):
            assert isinstance(word, Token)
            graphs.append(s.TemplateGraph(name, inside))
            if after is not None:
                graphs.append(s.TemplateGraph(None, after))
        return tuple(graphs)

    def datasets(self, *clauses: Any) -> tuple[Any, ...]:
        return clauses

    def from_graph(self, word: Token, iri: s.Iri) -> s.GraphClause:
        return s.GraphClause(iri, named=False)

    def from_named(self, word: Token, iri: s.Iri) -> s.GraphClause:
        return s.GraphClause(iri, named=True)

    def from_stream_as(self, word: Token, stream: s.Iri, window: s.WindowText, name: s.Variable) -> s.WindowClause:
        return s.WindowClause(stream, window, name, _at(word))

    def from_window(self, word: Token, mark: Token, name: s.Iri, on: Token, *rest: Any) -> s.WindowClause:
        stream, window = rest[-2:]
        return s.WindowClause(stream, window, name, _at(word))

    def from_stream(self, word: Token, mark: Token, stream: s.Iri, window: s.WindowText) -> s.WindowClause:
        return s.WindowClause(stream, window, None, _at(word))

    # --- solution modifiers

    def modifiers(self, group: Any, having: Any, order: Any, limits: Any) -> s.Modifiers:
        limit, offset = limits or (None, None)
        return s.Modifiers(group or (), having or (), order or (), limit, offset)

    def group_clause(self, word: Token, *keys: Any) -> tuple[s.GroupKey, ...]:
        return tuple(
            key if isinstance(key, s.GroupKey) else s.GroupKey(key, None, getattr(key, "at", _at(word))) for key in keys
        )

    def group_as(self, expression: s.Expression, variable: s.Variable | None) -> s.GroupKey:
        return s.GroupKey(expression, variable, expression.at if variable is None else variable.at)

    def having_clause(self, word: Token, *conditions: s.Expression) -> tuple[s.Expression, ...]:
        return conditions

    def order_clause(self, word: Token, *keys: s.OrderKey) -> tuple[s.OrderKey, ...]:
        return keys

    def ascending(self, word: Token, expression: s.Expression) -> s.OrderKey:
        return s.OrderKey(expression, descending=False)

    def descending(self, word: Token, expression: s.Expression) -> s.OrderKey:
        return s.OrderKey(expression, descending=True)

    def by_default(self, expression: s.Expression) -> s.OrderKey:
        return s.OrderKey(expression, descending=False)

    def limits(self, *parts: Any) -> tuple[s.Number | None, s.Number | None]:
        found = dict(part for part in parts if part is not None)
        return found.get("limit"), found.get("offset")

    def limit(self, number: Token) -> tuple[str, s.Number]:
        return "limit", s.Number(str(number), _at(number))

    def offset(self, number: Token) -> tuple[str, s.Number]:
        return "offset", s.Number(str(number), _at(number))

    # --- graph patterns

    def group_of_select(self, brace: Token, select: s.SubSelect) -> s.Group:
        return s.Group((select,), _at(brace))

    def group_of_elements(self, brace: Token, elements: tuple[s.Element, ...]) -> s.Group:
        return s.Group(elements, _at(brace))

    def body(self, *elements: s.Element) -> tuple[s.Element, ...]:
        return elements

    def alternatives(self, *groups: s.Group) -> s.Alternatives:
        return s.Alternatives(groups, groups[0].at)

    def optional(self, word: Token, group: s.Group) -> s.Optional:
        return s.Optional(group, _at(word))

    def minus(self, word: Token, group: s.Group) -> s.Without:
        return s.Without(group, _at(word))

    def graph(self, word: Token, name: Any, group: s.Group) -> s.GraphBlock:
        return s.GraphBlock(name, group, _at(word))

    def service(self, word: Token, silent: Token | None, name: Any, group: s.Group) -> s.ServiceBlock:
        return s.ServiceBlock(name, group, silent is not None, _at(word))

    def filter(self, word: Token, condition: s.Expression) -> s.FilterClause:
        return s.FilterClause(condition, _at(word))

    def bind(self, word: Token, expression: s.Expression, variable: s.Variable) -> s.BindClause:
        return s.BindClause(expression, variable, _at(word))

    def stream(self, word: Token, name: Any, window: s.WindowText, group: s.Group) -> s.StreamBlock:
        return s.StreamBlock(name, window, group, _at(word))

    def stream_window_first(self, word: Token, window: s.WindowText, name: Any, group: s.Group) -> s.StreamBlock:
        return s.StreamBlock(name, window, group, _at(word))

    def window_block(self, word: Token, name: Any, group: s.Group) -> s.WindowBlock:
        return s.WindowBlock(name, group, _at(word))

    def values_of_one(self, word: Token, variable: s.Variable, *cells: Any) -> s.ValuesBlock:
        rows = tuple(s.ValuesRow((cell,), cell.at) for cell in cells)
        return s.ValuesBlock((variable,), rows, _at(word))

    def values_of_many(self, word: Token, variables: tuple[s.Variable, ...], *rows: s.ValuesRow) -> s.ValuesBlock:
        return s.ValuesBlock(variables, rows, _at(word))

    def values_vars(self, *variables: s.Variable) -> tuple[s.Variable, ...]:
        return variables

    def values_row(self, paren: Token, *cells: Any) -> s.ValuesRow:
        return s.ValuesRow(cells, _at(paren))

    def undef(self, word: Token) -> s.Undef:
        return s.Undef(_at(word))

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
        return s.AnnotationBlock(properties, _at(brace))

    def reifier(self, tilde: Token, name: Any) -> s.Reifier:
        return s.Reifier(name, _at(tilde))

    def nil(self, paren: Token) -> s.Collection:
        return s.Collection((), _at(paren))

    def collection(self, paren: Token, *items: s.Node) -> s.Collection:
        return s.Collection(items, _at(paren))

    def property_list(self, bracket: Token, properties: tuple[s.Property, ...]) -> s.PropertyList:
        return s.PropertyList(properties, _at(bracket))

    def labelled_blank(self, token: Token) -> s.Blank:
        return s.Blank(str(token[2:]), _at(token))

    def anonymous_blank(self, bracket: Token) -> s.Blank:
        return s.Blank(None, _at(bracket))

    def reified(self, mark: Token, subject: Any, verb: Any, obj: Any, reifier: s.Reifier | None) -> s.Reified:
        return s.Reified(subject, verb, obj, reifier, _at(mark))

    def triple_term(self, mark: Token, subject: Any, verb: Any, obj: Any) -> s.TripleTermText:
        return s.TripleTermText(subject, verb, obj, _at(mark), _depth(subject, obj))

    def a_verb(self, token: Token) -> s.AKeyword:
        return s.AKeyword(_at(token))

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
        return s.PathNegated(tuple(member for member in members if member is not None), _at(bang))

    def path_forward(self, iri: s.Iri) -> tuple[s.Iri, bool]:
        return iri, False

    def path_backward(self, iri: s.Iri) -> tuple[s.Iri, bool]:
        return iri, True

    # --- expressions

    def disjunction(self, *parts: s.Expression) -> s.Expression:
        return self._chain("||", parts)

    def conjunction(self, *parts: s.Expression) -> s.Expression:
        return self._chain("&&", parts)

    def _chain(self, name: str, parts: tuple[s.Expression, ...]) -> s.Expression:
        if len(parts) == 1:
            return parts[0]
        return s.Operation(name, parts, parts[0].at, _depth(*parts), operator=True)

    def comparison(self, left: s.Expression, operator: Token, right: s.Expression) -> s.Operation:
        return s.Operation(str(operator), (left, right), left.at, _depth(left, right), operator=True)

    operation = comparison

    def signed_operation(self, left: s.Expression, right: s.Expression) -> s.Operation:
        """``?a -1*2``: the sign belongs to the first factor of the product, which keeps the value."""
        return s.Operation("+", (left, right), left.at, _depth(left, right), operator=True)

    def is_in(self, left: s.Expression, word: Token, members: tuple[s.Expression, ...]) -> s.Operation:
        return s.Operation("IN", (left, *members), left.at, _depth(left, *members), operator=True)

    def is_not_in(self, left: s.Expression, no: Token, word: Token, members: tuple[s.Expression, ...]) -> s.Operation:
        return s.Operation("NOT IN", (left, *members), left.at, _depth(left, *members), operator=True)

    def expression_list(self, *members: s.Expression | None) -> tuple[s.Expression, ...]:
        return tuple(member for member in members if member is not None)

    def not_(self, bang: Token, operand: s.Expression) -> s.Operation:
        return s.Operation("!", (operand,), _at(bang), _depth(operand), operator=True)

    def sign(self, sign: Token, operand: s.Expression) -> s.Operation:
        return s.Operation(f"UNARY{sign}", (operand,), _at(sign), _depth(operand), operator=True)

    def function_call(self, iri: s.Iri, paren: Token, distinct: Token | None, *args: Any) -> s.FunctionCallText:
        given = tuple(arg for arg in args if arg is not None)
        return s.FunctionCallText(iri, given, distinct is not None, iri.at, _depth(*given))

    def builtin(self, name: Token, *args: Any) -> s.Operation:
        given = tuple(arg for arg in args if arg is not None)
        return s.Operation(name.upper(), given, _at(name), _depth(*given), operator=False)

    def exists(self, word: Token, group: s.Group) -> s.ExistsText:
        return s.ExistsText(group, negated=False, at=_at(word))

    def not_exists(self, no: Token, word: Token, group: s.Group) -> s.ExistsText:
        return s.ExistsText(group, negated=True, at=_at(no))

    def set_function(self, name: Token, distinct: Token | None, argument: s.Expression) -> s.SetFunction:
        return s.SetFunction(name.upper(), argument, distinct is not None, None, None, _at(name), _depth(argument))

    def count_all(self, name: Token, distinct: Token | None, star: Token) -> s.SetFunction:
        return s.SetFunction("COUNT", None, distinct is not None, None, None, _at(name), 1)

    def group_concat(self, name: Token, distinct: Token | None, argument: s.Expression, separator: Any) -> s.SetFunction:
        return s.SetFunction(
            "GROUP_CONCAT", argument, distinct is not None, separator, None, _at(name), _depth(argument)
        )

    def percentile(self, name: Token, distinct: Token | None, argument: Any, parameter: Any) -> s.SetFunction:
        return s.SetFunction(
            "PERCENTILE", argument, distinct is not None, None, parameter, _at(name), _depth(argument, parameter)
        )

    # --- terms

    def var(self, token: Token) -> s.Variable:
        return s.Variable(str(token[1:]), _at(token))

    def iri_reference(self, token: Token) -> s.IriReference:
        return s.IriReference(token[1:-1], _at(token))

    def prefixed_name(self, token: Token) -> s.PrefixedName:
        return s.PrefixedName(str(token), _at(token))

    def string_token(self, token: Token) -> s.StringToken:
        return s.StringToken(str(token), _at(token))

    def plain_literal(self, string: s.StringToken) -> s.LiteralText:
        return s.LiteralText(string, None, None, string.at)

    def tagged_literal(self, string: s.StringToken, tag: Token) -> s.LiteralText:
        return s.LiteralText(string, str(tag[1:]), None, string.at)

    def typed_literal(self, string: s.StringToken, datatype: s.Iri) -> s.LiteralText:
        return s.LiteralText(string, None, datatype, string.at)

    def number(self, token: Token) -> s.Number:
        return s.Number(str(token), _at(token))

    def boolean(self, token: Token) -> s.Boolean:
        return s.Boolean(token.lower(), _at(token))

    # --- windows

    def window(self, bracket: Token, kind: dict[str, Any], *options: dict[str, Any]) -> s.WindowText:
        members = dict(kind)
        for option in options:
            members.update(option)
        return s.WindowText(at=_at(bracket), **members)

    def window_now(self, word: Token) -> dict[str, Any]:
        return {"kind": "now"}

    def window_all(self, word: Token) -> dict[str, Any]:
        return {"kind": "all"}

    def window_triples(self, word: Token, count: Token) -> dict[str, Any]:
        return {"kind": "triples", "count": self.number(count)}

    def window_batch(self, word: Token, triples: Token, count: Token) -> dict[str, Any]:
        return {"kind": "batch", "count": self.number(count)}

    def window_elements(self, word: Token, count: Token, step: Token | None, number: Token | None) -> dict[str, Any]:
        step_count = None if number is None else self.number(number)
        return {"kind": "elements", "count": self.number(count), "count_step": step_count}

    def window_range(self, word: Token, width: s.DurationText, step: Any) -> dict[str, Any]:
        kind = "sliding" if word.upper() == "SLIDING" else "range"
        return {"kind": kind, "width": width, **(step or {})}

    def window_tumbling(self, word: Token, width: s.DurationText) -> dict[str, Any]:
        return {"kind": "range", "width": width, "tumbling": True}

    def step_of(self, word: Token, step: s.DurationText) -> dict[str, Any]:
        return {"step": step}

    def step_tumbling(self, word: Token) -> dict[str, Any]:
        return {"tumbling": True}

    def lateness(self, word: Token, duration: s.DurationText) -> dict[str, Any]:
        return {"lateness": duration}

    def window_option(self, starting: s.InstantText) -> dict[str, Any]:
        return {"starting": starting}

    def report(self, word: Token, value: Token) -> dict[str, Any]:
        return {"report": value.upper()}

    def tick(self, word: Token, value: Token) -> dict[str, Any]:
        return {"tick": value.upper()}

    def starting_at(self, word: Token, value: Any, datatype: Any) -> s.InstantText:
        instant = self.number(value) if isinstance(value, Token) else value
        return s.InstantText(instant, instant.at)

    def duration_of_parts(self, *parts: tuple[tuple[str, str, int, bool], ...]) -> s.DurationText:
        pairs = tuple((number, unit) for part in parts for number, unit, _, _ in part)
        return s.DurationText(pairs, parts[0][0][2], any(words for part in parts for _, _, _, words in part))

    def duration_part(self, token: Token, unit: Token | None = None) -> tuple[tuple[str, str, int, bool], ...]:
        if unit is not None:
            return ((str(token), unit.lower(), _at(token), True),)
        return ((str(token).lower(), "compact", _at(token), False),)

    def duration_of_token(self, token: Token) -> s.DurationText:
        return s.DurationText(((str(token), ""),), _at(token))

    def duration_of_string(self, string: s.StringToken, datatype: Any) -> s.DurationText:
        return s.DurationText(((string.text[1:-1], ""),), string.at)


def _at(token: Token) -> int:
    position = token.start_pos
    return 0 if position is None else position
