"""A mapping's algebra -> one Python function of the fields of a record, which adds statements.

    def statements(p0, p1, add):        # the values of the fields, None where there is none
        v1 = f_0(k_1, p0)               # BIND
        if b2 is True:                  # FILTER
            add((t_3, t_4, text(p1), ""))

Fields are bound everywhere, in nested groups too, as if each group began with a VALUES of the record. What
has several solutions (UNION, OPTIONAL, VALUES) is collected as rows and gone through. Expressions are as in
queries.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode

from quadrill.store.dictionary import TermDictionary
from quadrill.store.terms import Term, term_text

from ...algebra import nodes as a
from ...algebra.build import all_nodes
from ...algebra.nodes import Algebra, Expr, TermPattern, TripleTerm, Var
from ...algebra.query import TemplateQuad
from ...algebra.set_functions import double_text
from ...algebra.variables import expression_variables
from ...expressions.compile import Emitter, ExpressionContext
from ...expressions.functions import same_term
from ...expressions.oxigraph import canonical
from ...expressions.values import XSD, Maybe, Value, ValueTable, term_of, value_of
from .construct import Construct

Statements: TypeAlias = Callable[..., None]
"""Takes the values of the fields and what a statement is given to."""
_PLAIN = re.compile(r'[^"\\\x00-\x1f\x7f\ufffe\uffff]*+').fullmatch
_SMALL = 2.0**49
"""Below it all doubles are written by their shortest digits."""
_INTEGER, _DOUBLE, _BOOLEAN = (f'"^^<{XSD}{name}>' for name in ("integer", "double", "boolean"))


def fields_of(construct: Construct) -> tuple[str, ...]:
    """The variables that a mapping takes from records."""
    found: set[str] = set()
    for node in all_nodes(construct.pattern):
        match node:
            case a.Filter(condition, _):
                found |= expression_variables(condition)
            case a.Extend(_, _, expr):
                found |= expression_variables(expr)
            case a.LeftJoin(_, _, condition) if condition is not None:
                found |= expression_variables(condition)
            case a.Values(variables, _):
                found |= {each.name for each in variables}
    for quad in construct.template:
        triple = quad.triple
        for term in (triple.subject, triple.predicate, triple.object, quad.graph):
            found |= {each.name for each in _variables(term) if not each.hidden}
    return tuple(sorted(found - construct.bound))


def generate(construct: Construct, fields: Sequence[str], base_iri: str) -> Statements:
    """The function of a mapping.

    Raises:
        UnsupportedError: an expression that cannot be compiled.
    """
    context = ExpressionContext(ValueTable(TermDictionary()), base_iri)
    generator = _Generator(_Emitter(context), {name: f"p{place}" for place, name in enumerate(fields)})
    return generator.build(construct.pattern, construct.template)


def is_blank(template: Sequence[TemplateQuad]) -> bool:
    """True when a template makes blank nodes."""
    terms = [term for each in template for term in (each.triple.subject, each.triple.object, each.graph)]
    return any(variable.hidden for term in terms for variable in _variables(term))


def is_single(construct: Construct) -> bool:
    """True when a solution of fields never gives a statement twice."""
    predicates = {each.triple.predicate for each in construct.template}
    nodes = all_nodes(construct.pattern)
    return (
        len(predicates) == len(construct.template)
        and all(isinstance(each, NamedNode) for each in predicates)
        and all(isinstance(node, a.Extend | a.Filter | a.Bgp) for node in nodes)
    )


def text_of(value: Value) -> str:
    """The text of a value's term, as the store writes it."""
    return _object(value) or ""


def _object(value: Maybe) -> str | None:
    if value is None:
        return None
    kind = type(value)
    if kind is str:
        if value.isprintable() and '"' not in value and "\\" not in value:  # type: ignore[union-attr,operator]
            return f'"{value}"'
        return f'"{value}"' if _PLAIN(value) else str(Literal(value))  # type: ignore[arg-type]
    if kind is NamedNode:
        return str(value)
    if kind is int:
        return f'"{value}{_INTEGER}'
    if kind is float:
        if -_SMALL < value < _SMALL:  # type: ignore[operator]
            text = repr(value)
            if "e" not in text:
                return f'"{text.removesuffix(".0")}{_DOUBLE}'
        return f'"{double_text(value)}{_DOUBLE}'  # type: ignore[arg-type]
    if kind is bool:
        return f'"true{_BOOLEAN}' if value else f'"false{_BOOLEAN}'
    return term_text(term_of(value))


def _node(value: Maybe) -> str | None:
    """The text of a value that can be a subject or a graph's name."""
    return str(value) if type(value) is NamedNode or type(value) is BlankNode else None


def _iri(value: Maybe) -> str | None:
    """The text of a value that can be a predicate."""
    return str(value) if type(value) is NamedNode else None


def _same(left: Value, right: Value) -> bool:
    """True for values of one term."""
    kind = type(left)
    if kind is not type(right):
        return False
    return left == right if kind is str or kind is int else same_term(left, right)


def _key(value: Value) -> str | Term:
    """A value as a key: another term's is another one."""
    return value if type(value) is str else term_of(value)


Env: TypeAlias = Mapping[str, str]
"""The local with the value of each variable."""

_Kind: TypeAlias = Callable[[Maybe], str | None]
"""The text of a value that may stand in some place of a statement; None of another one."""


class _Emitter(Emitter):
    """Functions that differ from call to call are right here: what they gave is kept, not made again."""

    def _call(self, name: str, args: tuple[Expr, ...], slots: Mapping[str, str]) -> str:
        made = _MADE.get(name)
        if made is None:
            return super()._call(name, args, slots)
        return self._assign(f"{self.name_of(made, 'made')}()")


_MADE: dict[str, Callable[[], Value]] = {
    "RAND": random.random,
    "STRUUID": lambda: str(uuid.uuid4()),
    "UUID": lambda: NamedNode(f"urn:uuid:{uuid.uuid4()}"),
}


class _Generator:
    """Writes the function. Each method leaves the lines at a depth where there is one solution."""

    def __init__(self, emitter: _Emitter, fields: Env) -> None:
        self._emitter = emitter
        self._fields = fields
        self._texts: dict[tuple[str, str], str] = {}

    def build(self, pattern: Algebra, template: Sequence[TemplateQuad]) -> Statements:
        emitter = self._emitter
        emitter.depth = 1
        emitter.line("pass")
        env = self._pattern(pattern)
        depth = emitter.depth
        for quad in template:
            self._quad(quad, env)
            emitter.depth = depth
        head = f"def statements({', '.join([*self._fields.values(), 'add'])}):"
        made: Statements = emitter.build(head, "statements")
        return made

    # --- patterns -----------------------------------------------------------------------------------

    def _pattern(self, node: Algebra) -> dict[str, str]:
        emitter = self._emitter
        match node:
            case a.Bgp(()):
                return dict(self._fields)
            case a.Extend(inner, var, expr):
                env = self._pattern(inner)
                emitter.known = env
                return {**env, var.name: emitter.value(expr, {})}
            case a.Filter(condition, inner):
                env = self._pattern(inner)
                self._require(condition, env)
                return env
            case a.Values():
                return self._values(node)
            case a.Join(left, right):
                return self._product(left, right)
            case a.LeftJoin():
                return self._optional(node)
            case a.Union(left, right):
                return self._union(left, right)
            case _:
                raise AssertionError(node)  # construct.py refuses it

    def _require(self, condition: Expr, env: dict[str, str]) -> None:
        emitter = self._emitter
        emitter.known = env
        self._only_if(f"{emitter.truth(condition, {})} is True")

    def _only_if(self, test: str) -> None:
        self._emitter.line(f"if {test}:")
        self._emitter.depth += 1

    def _values(self, node: a.Values) -> dict[str, str]:
        """Rows of inline data that go together with the fields, looked up by one that all of them have."""
        emitter, names = self._emitter, [each.name for each in node.vars]
        rows: list[tuple[Maybe, ...]] = [
            tuple(None if cell is None else value_of(canonical(cell)) for cell in row) for row in node.rows
        ]
        whole = [all(row[place] is not None for row in rows) for place in range(len(names))]
        locals_ = [emitter.fresh() for _ in names]
        source = emitter.name_of(rows, "rows")
        key = next((place for place, name in enumerate(names) if whole[place] and name in self._fields), None)
        if key is not None and rows:
            index: dict[Any, list[tuple[Maybe, ...]]] = {}
            for row in rows:
                index.setdefault(_key(row[key]), []).append(row)  # type: ignore[arg-type]  # every row has it
            field, found = self._fields[names[key]], f"{emitter.name_of(index, 'index')}.get"
            source = f"{source} if {field} is None else {found}({emitter.name_of(_key, 'key')}({field}), ())"
        self._each(locals_, source)
        env = dict(self._fields)
        for place, (name, local) in enumerate(zip(names, locals_, strict=True)):
            if place != key and name in self._fields:
                local = self._joined(self._fields[name], local)
            env[name] = local
        return env

    def _each(self, locals_: Sequence[str], source: str) -> None:
        """A loop over rows."""
        self._emitter.line(f"for {''.join(f'{each}, ' for each in locals_) or '()'} in {source}:")
        self._emitter.depth += 1

    def _joined(self, left: str, right: str) -> str:
        """Go on where two locals are compatible; the local of what they are together."""
        emitter = self._emitter
        same = emitter.name_of(_same, "same")
        self._only_if(f"{left} is None or {right} is None or {same}({left}, {right})")
        result = emitter.fresh()
        emitter.line(f"{result} = {right} if {left} is None else {left}")
        return result

    def _merged(self, left: dict[str, str], right: dict[str, str]) -> dict[str, str]:
        """Both solutions together, where they are compatible. Each is compatible with the fields."""
        env = {**left, **right}
        for name in left.keys() & right.keys():
            field, one, other = self._fields.get(name), left[name], right[name]
            if one != other:
                env[name] = one if other == field else other if one == field else self._joined(one, other)
        return env

    def _product(self, left: Algebra, right: Algebra) -> dict[str, str]:
        """Rows of both, collected: Python nests twenty loops at most."""
        rows, depth = self._rows()
        env = self._merged(self._pattern(left), self._pattern(right))
        return self._collected(rows, depth, [env])

    def _union(self, left: Algebra, right: Algebra) -> dict[str, str]:
        rows, depth = self._rows()
        return self._collected(rows, depth, [left, right])

    def _optional(self, node: a.LeftJoin) -> dict[str, str]:
        emitter = self._emitter
        rows, depth = self._rows()
        left = self._pattern(node.left)
        inside, before = emitter.depth, emitter.fresh("n")
        emitter.line(f"{before} = len({rows})")
        env = self._merged(left, self._pattern(node.right))
        if node.condition is not None:
            self._require(node.condition, env)
        names = self._own([env])
        self._add_row(rows, names, env)
        emitter.depth = inside
        self._only_if(f"len({rows}) == {before}")
        self._add_row(rows, names, left)
        return self._through(rows, depth, names)

    def _rows(self) -> tuple[str, int]:
        rows = self._emitter.fresh("rows")
        self._emitter.line(f"{rows} = []")
        return rows, self._emitter.depth

    def _collected(self, rows: str, depth: int, parts: Sequence[Algebra | dict[str, str]]) -> dict[str, str]:
        """Go through the rows of all parts; of a solution that is there the lines are written."""
        emitter = self._emitter
        names: list[str] = []
        added: list[tuple[int, int, dict[str, str]]] = []
        for part in parts:
            env = part if isinstance(part, dict) else self._pattern(part)
            # Which columns there are is known when all parts are: the line is put in later.
            added.append((len(emitter.lines), emitter.depth, env))
            emitter.line("pass")
            emitter.depth = depth
        names = self._own([env for _, _, env in added])
        for place, inside, env in added:
            emitter.lines[place] = "    " * inside + self._row(rows, names, env)
        return self._through(rows, depth, names)

    def _own(self, envs: Sequence[Env]) -> list[str]:
        """The variables that are not just the record's fields."""
        fields = self._fields
        return sorted({name for env in envs for name, local in env.items() if fields.get(name) != local})

    def _row(self, rows: str, names: Sequence[str], env: Env) -> str:
        cells = [env.get(name) or self._fields.get(name) or "None" for name in names]
        return f"{rows}.append(({''.join(f'{cell}, ' for cell in cells)}))"

    def _add_row(self, rows: str, names: Sequence[str], env: Env) -> None:
        self._emitter.line(self._row(rows, names, env))

    def _through(self, rows: str, depth: int, names: Sequence[str]) -> dict[str, str]:
        self._emitter.depth = depth
        locals_ = [self._emitter.fresh() for _ in names]
        self._each(locals_, rows)
        return {**self._fields, **dict(zip(names, locals_, strict=True))}

    # --- the template -------------------------------------------------------------------------------

    def _quad(self, quad: TemplateQuad, env: Env) -> None:
        """The statement of a template's quad, where its terms are bound and of the right kind."""
        triple = quad.triple
        tests: list[str] = []
        parts = [
            self._term(triple.subject, env, _node, tests),
            self._term(triple.predicate, env, _iri, tests),
            self._term(triple.object, env, _object, tests),
        ]
        named = quad.graph is not None
        parts.append(self._term(quad.graph, env, _node, tests) if named else self._emitter.name_of("", "g"))  # type: ignore[arg-type]
        if "None" in parts:
            return  # a variable that nothing ever binds
        if tests:
            self._only_if(" and ".join(f"{test} is not None" for test in dict.fromkeys(tests)))
        self._emitter.line(f"add(({', '.join(parts)}))")

    def _term(self, term: TermPattern, env: Env, kind: _Kind, tests: list[str]) -> str:
        """A local or constant with the text of a term; ``tests`` gets those that may be None."""
        emitter = self._emitter
        if isinstance(term, TripleTerm):
            return self._triple_term(term, env, tests)
        if not isinstance(term, Var):
            return emitter.name_of(term_text(canonical(term)), "t")
        if term.hidden:
            return emitter.name_of(f"_:b{term.name[3:]}", "t")
        local = env.get(term.name, "None")
        if local == "None":
            return local
        known = self._texts.get((local, kind.__name__))
        if known is None:
            known = self._texts[local, kind.__name__] = emitter.fresh("t")
            emitter.line(f"{known} = {emitter.name_of(kind, kind.__name__.strip('_'))}({local})")
        tests.append(known)
        return known

    def _triple_term(self, term: TripleTerm, env: Env, tests: list[str]) -> str:
        emitter = self._emitter
        own: list[str] = []
        parts = [
            self._term(term.subject, env, _node, own),
            self._term(term.predicate, env, _iri, own),
            self._term(term.object, env, _object, own),
        ]
        result = emitter.fresh("t")
        joined = f"{emitter.name_of(_triple_text, 'triple')}({', '.join(parts)})"
        emitter.line(f"{result} = {joined}")
        tests.extend([*own, result])
        return result


def _triple_text(subject: str | None, predicate: str | None, value: str | None) -> str | None:
    return None if None in (subject, predicate, value) else f"<<( {subject} {predicate} {value} )>>"


def _variables(term: TermPattern | None) -> list[Var]:
    if isinstance(term, Var):
        return [term]
    if isinstance(term, TripleTerm):
        return [each for part in (term.subject, term.predicate, term.object) for each in _variables(part)]
    return []
