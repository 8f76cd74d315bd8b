"""Look-ups: answers to simple queries that start at constants, read from the indexes without a plan.

    SELECT ?a ?n { <s> <next> ?a . ?a <name> ?n }       quads of <s> <next> --> quads of each ?a <name>

Oxigraph needs more time to parse and plan the text of a look-up than to find the quads. The analysis of a
look-up's text is shared by all texts that differ only in IRIs (store/sparql/skeletons.py). Oxigraph evaluates
every query that is no look-up, and every look-up with a large answer; `tests/app/test_look_ups.py` checks
that both ways give equal answers. The module of look-ups also evaluates simple WHERE parts of updates, which
may add a number to a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Store, Triple

from quadrill.store.errors import StoreError
from quadrill.store.quads.reading import StoreReader
from quadrill.store.results import term_text
from quadrill.store.sparql.skeletons import split_constants
from quadrill.store.terms import Solution, Term

MOST_QUADS = 64
"""Maximum number of quads that one look-up reads; Oxigraph evaluates and streams larger answers."""
_MOST_CHARACTERS = 1000
_MOST_PATTERNS = 4
_QUERY = re.compile(r"\s*SELECT((?:\s+\?\w+)+)\s*(?:\bWHERE\s*)?\{([^{}]*)\}\s*", re.IGNORECASE | re.ASCII)
_WHERE = re.compile(
    r"\{(?P<patterns>[^{}()]*?)"
    r"(?:\bBIND\s*\(\s*(?P<counted>\?\w+)\s*(?P<sign>[+\-])\s*(?P<by>[0-9]{1,9})\s+AS\s+(?P<new>\?\w+)\s*\)\s*\.?\s*)?\}",
    re.IGNORECASE | re.ASCII,
)
_LARGEST = (1 << 63) - 1
_MOST_COUNTED = 10**9
_VARIABLE = re.compile(r"\?\w+", re.ASCII)
_PLACES = ("subject", "predicate", "object")
_TYPE_AT = -1
_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
_DEFAULT = DefaultGraph()
_NO_SUBJECTS = (Literal, Triple)

Row: TypeAlias = list[Any]
"""A row of a look-up: the IRIs of the query text, the values of its variables, and rdf:type."""


class _LookUpStep(NamedTuple):
    """A triple pattern of a look-up: the row indexes of its terms; ``new`` has those that a quad fills in."""

    subject: int
    predicate: int
    object: int
    new: tuple[tuple[int, Callable[[Quad], Term]], ...]


class _LookUpPlan(NamedTuple):
    """The plan of all look-ups whose texts differ only in IRIs.

    Attributes:
        variables: number of variables of the look-up.
        steps: the triple patterns, in an order in which each has a known subject or object.
        columns: the JSON key and the row index of each variable in the answer.
        head: the start of the JSON answer, with the names of the variables.
    """

    variables: int
    steps: list[_LookUpStep]
    columns: list[tuple[str, int]]
    head: str


def look_up(text: str, reader: StoreReader) -> tuple[bytes, int, int] | None:
    """Return the JSON answer of a look-up, its row count and version; None if Oxigraph has to evaluate it."""
    if len(text) > _MOST_CHARACTERS:
        return None
    parts = split_constants(text)
    # Oxigraph removes dot segments from IRIs, so query texts with dot segments are not evaluated as look-ups.
    if parts.prologue or (plan := _plan(parts.body)) is None or "/." in text or ":." in text:
        return None
    try:
        row: Row = [*_nodes(parts.constants), *[None] * plan.variables, _TYPE]
        found = reader.read_at_once(partial(_rows, row, plan.steps))
    except (ValueError, RuntimeError, OSError, StoreError):
        # If a constant is not an IRI, or the store cannot be read, the evaluation by Oxigraph reports the
        # error.
        return None
    rows, version = found if found is not None else (None, 0)
    if rows is None:
        return None
    columns = plan.columns
    lines = ["{" + ",".join([key + term_text(row[place]) for key, place in columns]) + "}" for row in rows]
    return f"{plan.head}{','.join(lines)}]}}}}".encode(), len(rows), version


def solutions(
    where: str, body: str, constants: Sequence[str], names: tuple[str, ...], store: Store
) -> list[Solution] | None:
    """Return the solutions of a simple WHERE part of an update; None if Oxigraph has to evaluate it.

    A simple WHERE part may add a whole number to a value: ``BIND(?o + 1 AS ?n)``. ``body`` is the text of the
    WHERE part without its constants, which are in ``constants``.
    """
    if len(where) > _MOST_CHARACTERS or "/." in where or ":." in where:
        return None
    plan = _where_plan(body, names)
    if plan is None:
        return None
    by = plan.by
    if len(constants) > plan.iris:
        by = plan.sign * int(constants[-1])
    if plan.sign and not 0 < abs(by) < _MOST_COUNTED:
        return None
    try:
        known = _nodes(constants[: plan.iris])
        rows = _rows([*known, *[None] * plan.variables, _TYPE], plan.steps, store)
        for row in rows or () if by else ():
            value = row[plan.counted]
            number = int(value.value) if isinstance(value, Literal) else 0
            # Oxigraph evaluates WHERE parts with values that are not canonical whole numbers, or with sums
            # that overflow.
            if value != Literal(number) or abs(number + by) > _LARGEST:
                return None
            row.append(Literal(number + by))
    except (ValueError, OSError):
        return None  # a constant of the WHERE part is not an IRI or not a number
    return None if rows is None else [tuple([row[place] for place in plan.places]) for row in rows]


class _WherePlan(NamedTuple):
    """The look-up plan of all WHERE parts of updates whose texts differ only in constants.

    The last value of a row is the value at the row index ``counted`` plus the number ``by``. If each text has
    its own number to add, ``sign`` is the sign of the number.
    """

    iris: int
    variables: int
    steps: list[_LookUpStep]
    places: list[int]
    counted: int
    sign: int
    by: int


@lru_cache(maxsize=1024)
def _where_plan(body: str, names: tuple[str, ...]) -> _WherePlan | None:
    where, iris = _WHERE.fullmatch(body), body.count("<>")
    found = None if where is None else _walk(where["patterns"], iris)
    if where is None or found is None:
        return None
    steps, places = found
    variables, counted, sign, by = len(places), 0, 0, 0
    if where["new"]:
        sign = 1 if where["sign"] == "+" else -1
        by = sign * int(where["by"])
        if where["new"] in places or where["counted"] not in places:
            return None
        counted = places[where["counted"]]
        places[where["new"]] = iris + variables + 1
    if not places.keys() >= {f"?{name}" for name in names}:
        return None
    names_at = [places[f"?{name}"] for name in names]
    return _WherePlan(iris, variables, steps, names_at, counted, sign, by)


def _nodes(constants: Sequence[str]) -> list[NamedNode]:
    return [NamedNode(each[1:-1]) for each in constants]


def _rows(first: Row, steps: list[_LookUpStep], store: Store) -> list[Any] | None:
    """Return the rows of a look-up; None if its steps read more than `MOST_QUADS` quads."""
    rows, left = [first], MOST_QUADS
    for step in steps:
        wider: list[Row] = []
        for row in rows:
            subject = row[step.subject]
            if type(subject) in _NO_SUBJECTS:
                continue
            for quad in store.quads_for_pattern(subject, row[step.predicate], row[step.object], _DEFAULT):
                if not left:
                    return None
                left -= 1
                made = row.copy()
                for place, part in step.new:
                    made[place] = part(quad)
                wider.append(made)
        rows = wider
    return rows


@lru_cache(maxsize=1024)
def _plan(body: str) -> _LookUpPlan | None:
    """Return the look-up plan of query texts with the skeleton ``body``; None if they are no look-ups."""
    query = _QUERY.fullmatch(body)
    found = None if query is None else _walk(query[2], body.count("<>"))
    if query is None or found is None:
        return None
    names, (steps, places) = query[1].split(), found
    if len({*names}) < len(names) or not places.keys() >= {*names}:
        return None
    columns = [(f'"{name[1:]}":', places[name]) for name in names]
    listed = ",".join(f'"{name[1:]}"' for name in names)
    return _LookUpPlan(
        len(places),
        steps,
        columns,
        f'{{"head":{{"vars":[{listed}]}},"results":{{"bindings":[',
    )


def _walk(text: str, iris: int) -> tuple[list[_LookUpStep], dict[str, int]] | None:
    """Parse triple patterns into look-up steps and row indexes of variables; None for other syntax."""
    patterns = [each.split() for each in text.split(".")]
    if not patterns[-1]:
        patterns.pop()  # the text after the dot of the last triple pattern is empty
    if not 0 < len(patterns) <= _MOST_PATTERNS or any(len(each) != len(_PLACES) for each in patterns):
        return None
    variables = dict.fromkeys(_VARIABLE.findall(text))
    places = {name: iris + number for number, name in enumerate(variables)}
    taken, read = 0, []
    for pattern in patterns:
        step = []
        for place, token in enumerate(pattern):
            if token == "<>":
                step.append(taken)
                taken += 1
            elif token in places:
                step.append(places[token])
            elif token == "a" and place == 1:
                step.append(_TYPE_AT)
            else:
                return None
        read.append(step)
    steps = _steps(read, iris)
    return None if steps is None else (steps, places)


def _steps(read: list[list[int]], iris: int) -> list[_LookUpStep] | None:
    """Order a look-up's triple patterns so that each has a known subject or object; None if impossible."""
    known, steps = {*range(iris), _TYPE_AT}, []
    while read:
        found = [each for end in (0, 2) for each in read if each[end] in known]
        if not found:
            return None
        step = found[0]
        # Patterns with a bound variable as predicate, whose value may be no IRI, or with a repeated variable,
        # which needs an equality check, are left to Oxigraph.
        if (step[1] in known and step[1] >= iris) or len({*step}) < len(step):
            return None
        read.remove(step)
        subject, predicate, object_ = step
        parts = zip(step, _PLACES, strict=True)
        new = tuple([(place, attrgetter(name)) for place, name in parts if place not in known])
        steps.append(_LookUpStep(subject, predicate, object_, new))
        known.update(step)
    return steps
