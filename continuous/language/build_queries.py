"""Grammar callbacks of windows, registrations and query forms, and the builder that joins all callbacks.

The parser calls the method with the name of a grammar rule or alias as soon as the rule is complete. The
syntax tree is built by callbacks, so no parse tree exists between text and syntax tree, and deeply nested
texts cause no recursion.
"""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer, v_args

from . import syntax as s
from .build_patterns import ExpressionRules, PatternRules, at

_REPORTS = {"CLOSE": "on-window-close", "CHANGE": "on-content-change"}

# Each callback method is named for the grammar rule whose node it makes, so it has no docstring.

# ruff: noqa: D102


def _number(token: Token) -> s.Number:
    return s.Number(str(token), at(token))


@v_args(inline=True)
class WindowRules(Transformer[Token, s.Unit]):
    """Grammar callbacks of the rules between the brackets of a window."""

    # --- windows

    def window(self, bracket: Token, kind: dict[str, Any], *options: dict[str, Any]) -> s.WindowText:
        members = dict(kind)
        for option in options:
            members.update(option)
        return s.WindowText(at=at(bracket), **members)

    def window_now(self, word: Token) -> dict[str, Any]:
        return {"kind": "now"}

    def window_all(self, word: Token) -> dict[str, Any]:
        return {"kind": "all"}

    def window_triples(self, word: Token, count: Token) -> dict[str, Any]:
        return {"kind": "triples", "count": _number(count)}

    def window_batch(self, word: Token, triples: Token, count: Token) -> dict[str, Any]:
        return {"kind": "batch", "count": _number(count)}

    def window_elements(
        self, word: Token, count: Token, step: Token | None, number: Token | None
    ) -> dict[str, Any]:
        step_count = None if number is None else _number(number)
        return {"kind": "elements", "count": _number(count), "count_step": step_count}

    def window_range(self, word: Token, width: s.DurationText, step: Any) -> dict[str, Any]:
        kind = "sliding" if word.upper() == "SLIDING" else "range"
        return {"kind": kind, "width": width, **(step or {})}

    def window_tumbling(self, word: Token, width: s.DurationText) -> dict[str, Any]:
        return {"kind": "range", "width": width, "tumbling": True}

    def window_word(self, word: Token, *numbers: Token) -> dict[str, Any]:
        return {"kind": "word", "word": word.upper(), "numbers": tuple(map(_number, numbers))}

    def window_past(
        self, word: Token, begin: s.DurationText, to: Token, end: s.DurationText, step: Any
    ) -> dict[str, Any]:
        return {"kind": "past", "width": begin, "end": end, **(step or {})}

    def window_past_from(
        self, word: Token | None, begin: s.DurationText, to: Token, end: s.DurationText, step: Any
    ) -> dict[str, Any]:
        return {"kind": "past", "width": begin, "end": end, **(step or {})}

    def window_session(
        self, word: Token, gap: s.DurationText, keys: tuple[s.Variable, ...] | None
    ) -> dict[str, Any]:
        return {"kind": "session", "width": gap, "keys": keys or ()}

    def partition(self, word: Token, *keys: s.Variable) -> tuple[s.Variable, ...]:
        return keys

    def window_latest(self, word: Token, count: Token | None, *rest: Any) -> dict[str, Any]:
        *keys, _, within = rest
        number = None if count is None else _number(count)
        return {"kind": "latest", "count": number, "keys": tuple(keys), "width": within}

    def moment(self, now: Token, sign: Token | None, ago: s.DurationText | None) -> s.DurationText:
        return s.DurationText((("0", ""),), at(now)) if ago is None else ago

    def step_of(self, word: Token, step: s.DurationText) -> dict[str, Any]:
        return {"step": step}

    def step_tumbling(self, word: Token) -> dict[str, Any]:
        return {"tumbling": True}

    def lateness(self, word: Token, duration: s.DurationText) -> dict[str, Any]:
        return {"lateness": duration}

    def bounds(self, word: Token, open_: s.Variable, close: s.Variable) -> dict[str, Any]:
        return {"bounds": (open_, close)}

    def window_option(self, starting: s.InstantText) -> dict[str, Any]:
        return {"starting": starting}

    def report(self, word: Token, *values: Token) -> dict[str, Any]:
        return {"report": " ".join(value.upper() for value in values)}

    def tick(self, word: Token, value: Token) -> dict[str, Any]:
        return {"tick": value.upper()}

    def starting_at(self, word: Token, value: Any, datatype: Any) -> s.InstantText:
        instant = _number(value) if isinstance(value, Token) else value
        return s.InstantText(instant, instant.at)

    def duration_of_parts(self, *parts: tuple[tuple[str, str, int, bool], ...]) -> s.DurationText:
        pairs = tuple((number, unit) for part in parts for number, unit, _, _ in part)
        return s.DurationText(pairs, parts[0][0][2], any(words for part in parts for _, _, _, words in part))

    def duration_part(
        self, token: Token, unit: Token | None = None
    ) -> tuple[tuple[str, str, int, bool], ...]:
        if unit is not None:
            return ((str(token), unit.lower(), at(token), True),)
        return ((str(token).lower(), "compact", at(token), False),)

    def duration_of_token(self, token: Token) -> s.DurationText:
        return s.DurationText(((str(token), ""),), at(token))

    def duration_of_string(self, string: s.StringToken, datatype: Any) -> s.DurationText:
        return s.DurationText(((string.text[1:-1], ""),), string.at)


@v_args(inline=True)
class QueryRules(Transformer[Token, s.Unit]):
    """Grammar callbacks of the rules from `unit` (a whole text) down to graph patterns, without those."""

    # --- the whole

    def unit(self, *parts: Any) -> s.Unit:
        declarations, query, endings = parts[0], parts[-2], parts[-1]
        register = parts[1] if len(parts) == 4 else None
        if register is None:
            return s.Unit(declarations, None, query, endings)
        clause, more = register
        return s.Unit(declarations + more, clause, query, endings)

    def prologue(self, *declarations: s.Declaration) -> tuple[s.Declaration, ...]:
        return declarations

    def base_declaration(self, iri: Token) -> s.Declaration:
        return s.Declaration("base", "", iri[1:-1], at(iri))

    def prefix_declaration(self, prefix: Token, iri: Token) -> s.Declaration:
        return s.Declaration("prefix", prefix[:-1], iri[1:-1], at(prefix))

    def version_declaration(self, version: Token) -> s.Declaration:
        return s.Declaration("version", "", version[1:-1], at(version))

    def register(self, word: Token, kind: Token | None, target: Any, *rest: Any) -> Any:
        every: s.DurationText | None = None
        starting: s.InstantText | None = None
        timing, more = rest[0], rest[1:]
        declarations = tuple(each for each in more if isinstance(each, s.Declaration))
        entailment = next((each for each in more if isinstance(each, int)), None)
        if isinstance(timing, tuple):
            every, starting = timing
        elif isinstance(timing, s.InstantText):
            starting = timing
        name = str(target) if isinstance(target, Token) else None
        iri = None if isinstance(target, Token) else target
        word_kind = None if kind is None else kind.upper()
        return s.Register(word_kind, iri, name, every, starting, at(word), entailment), declarations

    def entailment(self, word: Token, regime: s.Iri) -> int:
        return at(word)

    def computed_every(self, word: Token, every: s.DurationText, starting: s.InstantText | None) -> Any:
        return every, starting

    def endings(self, *clauses: s.OnceClause | s.EmitClause | s.AfterClause) -> tuple[Any, ...]:
        return clauses

    def once_per(self, word: Token, *rest: Any) -> s.OnceClause:
        *variables, until, every = rest
        return s.OnceClause(tuple(variables), every, at(word), until is not None, until or False)

    def until_gone(self, gone: Token, resolved: Token | None) -> bool:
        return resolved is not None

    def emit_on(self, word: Token, on: Token, when: Token) -> s.EmitClause:
        return s.EmitClause(_REPORTS[when.upper()], at(word))

    def emit_every(self, word: Token, every: s.DurationText) -> s.EmitClause:
        return s.EmitClause(every, at(word))

    def after(self, word: Token, after: s.DurationText) -> s.AfterClause:
        return s.AfterClause(after, at(word))

    # --- query forms

    def select_query(
        self, select: s.SelectClause, datasets: Any, where: s.GroupPattern, modifiers: Any, values: Any
    ) -> s.Query:
        return s.Query("select", datasets, where, modifiers, values, select.at, select=select)

    def construct_query(
        self, word: Token, template: Any, datasets: Any, where: Any, modifiers: Any, values: Any
    ) -> s.Query:
        return s.Query("construct", datasets, where, modifiers, values, at(word), template=template)

    def construct_short(
        self, word: Token, datasets: Any, triples: Any, modifiers: Any, values: Any
    ) -> s.Query:
        elements = () if triples is None else (triples,)
        return s.Query("construct", datasets, s.GroupPattern(elements, at(word)), modifiers, values, at(word))

    def describe_query(
        self, word: Token, terms: Any, datasets: Any, where: Any, modifiers: Any, values: Any
    ) -> s.Query:
        return s.Query("describe", datasets, where, modifiers, values, at(word), describe=terms)

    def ask_query(self, word: Token, datasets: Any, where: Any, modifiers: Any, values: Any) -> s.Query:
        return s.Query("ask", datasets, where, modifiers, values, at(word))

    def sub_select(
        self, select: s.SelectClause, where: s.GroupPattern, modifiers: Any, values: Any
    ) -> s.SubSelect:
        return s.SubSelect(select, where, modifiers, values)

    def select_clause(self, word: Token, mode: Token | None, items: Any) -> s.SelectClause:
        return s.SelectClause(None if mode is None else mode.upper(), items, at(word))

    def everything(self, star: Token) -> None:
        return None

    def listed(self, *items: Any) -> tuple[Any, ...]:
        return tuple(s.SelectItem(item, None) if isinstance(item, s.Variable) else item for item in items)

    def described(self, *terms: Any) -> tuple[Any, ...]:
        return terms

    def select_as(self, expression: s.Expression, variable: s.Variable) -> s.SelectItem:
        return s.SelectItem(variable, expression)

    def template(self, body: tuple[s.TemplateGraph, ...]) -> tuple[s.TemplateGraph, ...]:
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

    def refresh_every(self, word: Token, every: s.DurationText) -> s.RefreshClause:
        return s.RefreshClause(every, at(word))

    def into_graph(self, word: Token, graph: Token, iri: s.Iri) -> s.IntoClause:
        return s.IntoClause(iri, at(word))

    def from_stream_as(
        self, word: Token, stream: s.Iri, window: s.WindowText, name: s.Variable
    ) -> s.WindowClause:
        return s.WindowClause(stream, window, name, at(word))

    def from_window(self, word: Token, mark: Token, name: s.Iri, on: Token, *rest: Any) -> s.WindowClause:
        stream, window = rest[-2:]
        return s.WindowClause(stream, window, name, at(word))

    def from_stream(self, word: Token, mark: Token, stream: s.Iri, window: s.WindowText) -> s.WindowClause:
        return s.WindowClause(stream, window, None, at(word))

    # --- solution modifiers

    def modifiers(self, group: Any, having: Any, order: Any, limits: Any) -> s.Modifiers:
        limit, offset = limits or (None, None)
        return s.Modifiers(group or (), having or (), order or (), limit, offset)

    def group_clause(self, word: Token, *keys: Any) -> tuple[s.GroupKey, ...]:
        return tuple(
            key if isinstance(key, s.GroupKey) else s.GroupKey(key, None, getattr(key, "at", at(word)))
            for key in keys
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
        return "limit", s.Number(str(number), at(number))

    def offset(self, number: Token) -> tuple[str, s.Number]:
        return "offset", s.Number(str(number), at(number))


class SyntaxBuilder(QueryRules, PatternRules, ExpressionRules, WindowRules):
    """Grammar callbacks of all rules; the prefix ``sparql__`` of rules of the core grammar is ignored."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("sparql__"):
            return getattr(self, name.removeprefix("sparql__"))
        raise AttributeError(name)
