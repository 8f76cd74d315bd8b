"""Code generation for mappings: one Python function that makes the statements for a record's fields.

    def statements(p0, p1, found):      # the values of the fields; None if the record lacks the field
        v1 = f_0(k_1, p0)               # BIND
        if b2 is True:                  # FILTER
            t5 = text(p1)
            found += ((t_3, t_4, t5, ""),)

The fields of a record are bound in nested groups too, as if each group began with a VALUES of the record.
UNION, OPTIONAL and VALUES can have several solutions, so their rows are collected in a list, which a loop of
the generated function reads. Expressions of a mapping are compiled as in queries. The generated function
memoises results that depend on the text of a single field, and the texts of literals.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pyoxigraph import NamedNode

from quadrill.store.dictionary import TermDictionary
from quadrill.store.terms import term_text

from ...algebra import nodes as a
from ...algebra.build import sub_expressions
from ...algebra.nodes import Algebra, Expr, TermPattern, TripleTerm, Var
from ...algebra.query import TemplateQuad
from ...algebra.variables import expression_variables
from ...expressions.compile import ExpressionContext, ExpressionEmitter
from ...expressions.oxigraph import canonical
from ...expressions.values import Maybe, Value, ValueTable, value_of
from .construct import Construct
from .limits import CELL_BYTES, LONG, ROW_BYTES, STATEMENT_BYTES, RecordWork
from .memoised import MemoisedFunction
from .texts import (
    INTEGER,
    NUMBERS,
    TEXTS,
    Kind,
    iri_text,
    key_of,
    node_text,
    object_text,
    same_value,
    triple_text,
)
from .traits import is_counted

Statements: TypeAlias = Callable[..., None]
"""A Python function generated for a mapping.

Its arguments are the values of the fields and the list that receives statements.
"""


def generate(construct: Construct, fields: Sequence[str], base_iri: str, work: RecordWork) -> Statements:
    """Generate the Python function of a mapping; it counts its work in ``work`` if `is_counted` is true.

    Raises:
        UnsupportedError: the mapping has an expression that cannot be compiled.
    """
    # The counter of a mapping's work has the attributes of a budget that functions making long values read.
    budget: Any = work
    context = ExpressionContext(ValueTable(TermDictionary()), base_iri, budget=budget)
    counted = work if is_counted(construct) else None
    generator = _Generator(context, {name: f"p{place}" for place, name in enumerate(fields)}, counted)
    return generator.build(construct.pattern, construct.template)


Env: TypeAlias = Mapping[str, str]
"""A map from the name of each variable to the local of the generated function that holds its value."""


class RecordEmitter(ExpressionEmitter):
    """Code emitter that also allows RAND, UUID and STRUUID, because a record is mapped only once."""

    def __init__(self, context: ExpressionContext, work: RecordWork | None) -> None:
        super().__init__(context)
        self.work = work

    def _call(self, name: str, args: tuple[Expr, ...], slots: Mapping[str, str]) -> str:
        made = _MADE.get(name)
        if made is None:
            if self.work is not None and name.isalnum() and name not in _CHEAP:
                self.line(f"{self.name_of(self.work.tick, 'tick')}()")
            return super()._call(name, args, slots)
        return self._assign(f"{self.name_of(made, 'made')}()")


_MADE: dict[str, Callable[[], Value]] = {
    "RAND": random.random,
    "STRUUID": lambda: str(uuid.uuid4()),
    "UUID": lambda: NamedNode(f"urn:uuid:{uuid.uuid4()}"),
}


_CHEAP = frozenset({"BOUND", "IF", "COALESCE", "IN", "ISIRI", "ISURI", "ISBLANK", "ISLITERAL", "ISNUMERIC"})
"""Built-in functions that need no clock check, because their time does not depend on argument lengths."""


def _differs(expr: Expr) -> bool:
    """Return True if an expression calls RAND, UUID or STRUUID and so may give another value each time."""
    return any(isinstance(each, a.Call) and each.name in _MADE for each in sub_expressions(expr))


class _Generator:
    """Generator of the Python function of a mapping.

    Each method that generates code for a pattern ends at an indentation whose lines run once for each
    solution.
    """

    def __init__(self, context: ExpressionContext, fields: Env, work: RecordWork | None) -> None:
        self._context = context
        self._work = work
        self._nodes = 0
        self._emitter = RecordEmitter(context, work)
        self._fields = fields
        self._texts: dict[tuple[str, str], str] = {}
        self._made_of: dict[str, tuple[str, Callable[[Value], Maybe]]] = {}
        """For each local that depends on one field: the field's local, and the function between both."""

    def build(self, pattern: Algebra, template: Sequence[TemplateQuad]) -> Statements:
        emitter = self._emitter
        emitter.depth = 1
        emitter.line("pass")
        self._template(template, self._pattern(pattern))
        head = f"def statements({', '.join([*self._fields.values(), 'found'])}):"
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
                local = self._remembered(expr, env) or emitter.value(expr, {})
                if self._work is not None and not isinstance(expr, Var):
                    long = emitter.name_of(self._work.long, "long")
                    emitter.line(f"if type({local}) is str and len({local}) > {LONG}: {long}({local})")
                return {**env, var.name: local}
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
                # Other algebra nodes cannot occur, because construct.py has rejected them.
                raise AssertionError(node)

    def _remembered(self, expr: Expr, env: Env) -> str | None:
        """Generate code for a memoised expression of one field, and return its local.

        Returns None for an expression that calls RAND or UUID, or that does not read exactly one field.
        """
        emitter, names = self._emitter, expression_variables(expr)
        locals_ = {env.get(name, "None") for name in names}
        if isinstance(expr, Var) or len(locals_) != 1 or _differs(expr):
            return None
        (local,) = locals_
        if local in self._made_of:
            field, inner = self._made_of[local]
        elif local in self._fields.values():
            field, inner = local, None
        else:
            return None
        own = RecordEmitter(self._context, self._work)
        own.depth, own.known = 1, dict.fromkeys(names, "given")
        own.line(f"return {own.value(expr, {})}")
        function = outer = own.build("def value(given):", "value")
        if inner is not None:
            function = lambda given: outer(inner(given))  # noqa: E731
        result, text = emitter.fresh(), emitter.fresh("t")
        both = MemoisedFunction(lambda given: (found := function(given), node_text(found)))
        known = emitter.name_of(both, "known")
        emitter.line(f"if type({field}) is str: {result}, {text} = {known}[{field}]")
        emitter.line("else:")
        emitter.depth += 1
        emitter.line(f"{result} = {emitter.value(expr, {})}")
        emitter.line(f"{text} = {emitter.name_of(node_text, 'node')}({result})")
        emitter.depth -= 1
        self._made_of[result], self._texts[result, "node_text"] = (field, function), text
        return result

    def _require(self, condition: Expr, env: dict[str, str]) -> None:
        emitter = self._emitter
        emitter.known = env
        self._only_if(f"{emitter.truth(condition, {})} is True")

    def _only_if(self, test: str) -> None:
        self._emitter.line(f"if {test}:")
        self._emitter.depth += 1

    def _values(self, node: a.Values) -> dict[str, str]:
        """Generate a loop over the rows of VALUES that are compatible with the record's fields.

        If a field's column of VALUES is bound in every row, the loop looks up its rows by the value of that
        field.
        """
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
                index.setdefault(key_of(row[key]), []).append(row)  # type: ignore[arg-type]  # every row has it
            field, found = self._fields[names[key]], f"{emitter.name_of(index, 'index')}.get"
            key_name = emitter.name_of(key_of, "key")
            source = f"{source} if {field} is None else {found}({key_name}({field}), ())"
        self._each(locals_, source)
        env = dict(self._fields)
        for place, (name, local) in enumerate(zip(names, locals_, strict=True)):
            if place != key and name in self._fields:
                local = self._joined(self._fields[name], local)
            env[name] = local
        return env

    def _each(self, locals_: Sequence[str], source: str) -> None:
        """Generate the head of a loop over rows."""
        emitter = self._emitter
        emitter.line(f"for {''.join(f'{each}, ' for each in locals_) or '()'} in {source}:")
        emitter.depth += 1
        if self._work is not None:
            emitter.line(f"{emitter.name_of(self._work.tick, 'tick')}()")

    def _joined(self, left: str, right: str) -> str:
        """Generate a condition that two locals are compatible, and return the local of their joined value."""
        emitter = self._emitter
        same = emitter.name_of(same_value, "same")
        self._only_if(f"{left} is None or {right} is None or {same}({left}, {right})")
        result = emitter.fresh()
        emitter.line(f"{result} = {right} if {left} is None else {left}")
        return result

    def _merged(self, left: dict[str, str], right: dict[str, str]) -> dict[str, str]:
        """Generate the join of two solutions, both already compatible with the record's fields.

        Return the locals of the joined solution's variables.
        """
        env = {**left, **right}
        for name in left.keys() & right.keys():
            field, one, other = self._fields.get(name), left[name], right[name]
            if one != other:
                env[name] = one if other == field else other if one == field else self._joined(one, other)
        return env

    def _product(self, left: Algebra, right: Algebra) -> dict[str, str]:
        """Generate a join that collects its rows in a list, because Python nests at most twenty loops."""
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
        number = self._node()
        emitter.line(self._row(number, rows, names, env))
        emitter.depth = inside
        self._only_if(f"len({rows}) == {before}")
        emitter.line(self._row(number, rows, names, left))
        return self._through(rows, depth, names)

    def _rows(self) -> tuple[str, int]:
        rows = self._emitter.fresh("rows")
        self._emitter.line(f"{rows} = []")
        return rows, self._emitter.depth

    def _collected(self, rows: str, depth: int, parts: Sequence[Algebra | dict[str, str]]) -> dict[str, str]:
        """Generate lines that collect the rows of all pattern parts, then a loop over the collected rows.

        A pattern part that is a dictionary is a solution whose lines have been generated already.
        """
        emitter = self._emitter
        added: list[tuple[int, int, dict[str, str]]] = []
        for part in parts:
            env = part if isinstance(part, dict) else self._pattern(part)
            # The columns of the collected rows are known only after all parts, so this placeholder line is
            # replaced later.
            added.append((len(emitter.lines), emitter.depth, env))
            emitter.line("pass")
            emitter.depth = depth
        names, node = self._own([env for _, _, env in added]), self._node()
        for place, inside, env in added:
            emitter.lines[place] = "    " * inside + self._row(node, rows, names, env)
        return self._through(rows, depth, names)

    def _own(self, envs: Sequence[Env]) -> list[str]:
        """Return the sorted names of the variables that do not just hold a field of the record."""
        fields = self._fields
        return sorted({name for env in envs for name, local in env.items() if fields.get(name) != local})

    def _node(self) -> int:
        """Return a new number for a part of the mapping's pattern, under which its solutions are counted."""
        self._nodes += 1
        return self._nodes

    def _row(self, node: int, rows: str, names: Sequence[str], env: Env) -> str:
        cells = [env.get(name) or self._fields.get(name) or "None" for name in names]
        add = f"{rows}.append(({''.join(f'{cell}, ' for cell in cells)}))"
        return f"{add}; {self._counting(node, ROW_BYTES + CELL_BYTES * len(cells))}"

    def _counting(self, node: int, size: int) -> str:
        """Return a line of code that counts a solution of pattern part number ``node``."""
        return (
            "pass"
            if self._work is None
            else f"{self._emitter.name_of(self._work.row, 'row')}({node}, {size})"
        )

    def _through(self, rows: str, depth: int, names: Sequence[str]) -> dict[str, str]:
        self._emitter.depth = depth
        locals_ = [self._emitter.fresh() for _ in names]
        self._each(locals_, rows)
        return {**self._fields, **dict(zip(names, locals_, strict=True))}

    # --- the template -------------------------------------------------------------------------------

    def _template(self, template: Sequence[TemplateQuad], env: Env) -> None:
        """Generate the template's statements, with tests that their terms are bound and allowed in RDF."""
        emitter, default = self._emitter, self._emitter.name_of("", "g")
        made: list[tuple[str, list[str]]] = []
        for triple, graph in ((each.triple, each.graph) for each in template):
            tests: list[str] = []
            parts = [
                self._term(triple.subject, env, node_text, tests),
                self._term(triple.predicate, env, iri_text, tests),
                self._term(triple.object, env, object_text, tests),
                default if graph is None else self._term(graph, env, node_text, tests),
            ]
            if "None" not in parts:  # The text "None" stands for a variable that is never bound.
                made.append((f"({', '.join(parts)}), ", tests))
        if self._work is not None:
            emitter.line(self._counting(0, STATEMENT_BYTES * len(made)))
            for text in dict.fromkeys(test for _, tests in made for test in tests):
                long = emitter.name_of(self._work.long, "long")
                emitter.line(f"if {text} is not None and len({text}) > {LONG}: {long}({text})")
        if not made:
            return
        # Most records bind all terms of the template, so one test for all statements comes first.
        self._when(
            dict.fromkeys(test for _, tests in made for test in tests), "".join(text for text, _ in made)
        )
        if any(tests for _, tests in made) and len(made) > 1:
            emitter.line("else:")
            emitter.depth += 1
            for text, tests in made:
                self._when(tests, text)
            emitter.depth -= 1

    def _when(self, tests: Iterable[str], statements: str) -> None:
        """Generate a line that adds ``statements`` to the result if no local in ``tests`` is None."""
        tests = [f"{each} is not None" for each in dict.fromkeys(tests)]
        self._emitter.line(f"if {' and '.join(tests) or 'True'}: found += ({statements})")

    def _term(self, term: TermPattern, env: Env, kind: Kind, tests: list[str]) -> str:
        """Return a local or constant of the generated function that holds the text of a term.

        Append those locals that may be None to the list ``tests``.
        """
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
            emitter.line(f"{known} = {self._text(local, kind)}")
        tests.append(known)
        return known

    def _text(self, local: str, kind: Kind) -> str:
        """Return the source text of an expression for the N-Triples text of a local's value."""
        emitter = self._emitter
        text = f"{emitter.name_of(kind, kind.__name__)}({local})"
        if kind is object_text:
            texts, numbers = emitter.name_of(TEXTS, "texts"), emitter.name_of(NUMBERS, "numbers")
            # As 0.0 and -0.0 are equal keys of a dictionary, zero is never looked up.
            number = f"{numbers}[{local}] if type({local}) is float and {local} else {text}"
            whole = f"f'\"{{{local}}}{INTEGER}' if type({local}) is int else {number}"
            return f"{texts}[{local}] if type({local}) is str else {whole}"
        return text

    def _triple_term(self, term: TripleTerm, env: Env, tests: list[str]) -> str:
        emitter = self._emitter
        own: list[str] = []
        parts = [
            self._term(term.subject, env, node_text, own),
            self._term(term.predicate, env, iri_text, own),
            self._term(term.object, env, object_text, own),
        ]
        result = emitter.fresh("t")
        joined = f"{emitter.name_of(triple_text, 'triple')}({', '.join(parts)})"
        emitter.line(f"{result} = {joined}")
        tests.extend([*own, result])
        return result
