"""Translation of a syntax tree to a `ContinuousQuery`, and warnings about doubtful queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import TypeVar, cast

from pyoxigraph import NamedNode

from ..algebra import nodes as a
from ..algebra.build import all_nodes, children
from ..algebra.nodes import Algebra, TermPattern, TriplePattern, Var
from ..algebra.query import (
    ContinuousQuery,
    DatasetClause,
    EmissionClauses,
    Form,
    OncePer,
    Output,
    ResultDeclaration,
    TemplateQuad,
    WindowDeclaration,
)
from ..algebra.variables import Names, Scopes, expression_variables, in_scope, mentioned
from . import syntax as s
from .context import Context
from .patterns import UNIT, PatternTranslator
from .terms import Terms
from .triples import TripleTranslator
from .windows import Windows, duration_ms

C = TypeVar("C", s.RefreshClause, s.IntoClause, s.OnceClause, s.EmitClause, s.AfterClause)
_OUTPUTS: dict[str, Output] = {"ISTREAM": "istream", "DSTREAM": "dstream", "RSTREAM": "rstream"}


def translate(unit: s.Unit, context: Context) -> ContinuousQuery:
    """Translate a syntax tree to a query; faults are collected in the context, and the caller raises them."""
    terms = Terms(context, unit.declarations)
    register = unit.register
    windows = Windows(context, terms)
    t0 = None
    if register is not None and register.starting is not None:
        t0 = windows.instant(register.starting)
    if register is not None and register.entailment is not None:
        hint = "Answers are those of simple entailment."
        context.missing("UNDER ENTAILMENT REGIME", register.entailment, hint)
    query = unit.query
    dataset = _dataset(query, terms, windows)
    into_graph = _into_graph(query, terms, context)
    patterns = PatternTranslator(context, terms, windows)
    where = UNIT if query.where is None else patterns.where(query.where)
    root = patterns.selects.modified(where, query.modifiers, query.values, query.select)
    template = _template(query, context, terms)
    windows.warn_of_unused()
    _check_stream_variables(windows, root, context)
    _check_depth(root, context, query.at)
    _warn_of_parameters(context)
    if not context.faults:
        windows.find_patterns(root)
        for sentence in advice(root, windows.declarations):
            context.warn(sentence)
    every = None
    if register is not None and register.every is not None:
        every = duration_ms(context, register.every, "COMPUTED EVERY")
    return ContinuousQuery(
        text=context.text,
        dialect=context.dialect,
        form=cast(Form, query.form),
        root=root,
        columns=_columns(root) if query.form == "select" else (),
        dataset=dataset,
        windows=windows.declarations,
        template=template,
        describe=_described(query, root, patterns),
        output=_OUTPUTS.get(register.kind or "") if register else None,
        result=_result(register, terms),
        emission=EmissionClauses(
            computed_every_ms=every,
            t0_ms=t0,
            report=windows.report,
            emit=_emit(unit, context),
            after_ms=_after(unit, context),
            once_per=_once_per(unit, root, context),
        ),
        refresh_every_ms=_refresh_every(query, context),
        into_graph=into_graph,
        prefixes=dict(terms.prefixes),
        base_iri=terms.base,
        parameters=tuple(context.found_parameters),
        named_aliases=tuple(context.named_aliases),
        warnings=tuple(context.warnings),
    )


def _result(register: s.Register | None, terms: Terms) -> ResultDeclaration:
    """Return the kind and name of the result from the REGISTER clause."""
    if register is None:
        return ResultDeclaration()
    return ResultDeclaration(
        kind="query" if register.kind in (None, "QUERY") else "stream",
        iri=terms.iri(register.iri) if register.iri else None,
        name=register.name,
    )


def _dataset(query: s.Query, terms: Terms, windows: Windows) -> DatasetClause:
    default: dict[NamedNode, None] = {}
    named: dict[NamedNode, None] = {}
    for clause in query.datasets:
        if isinstance(clause, s.WindowClause):
            windows.clause(clause)
        elif isinstance(clause, s.GraphClause):
            (named if clause.named else default)[terms.iri(clause.iri)] = None
    return DatasetClause(tuple(default), tuple(named))


def _only(clauses: Iterable[object], kind: type[C], context: Context, words: str, hint: str) -> C | None:
    """Return the first clause of a kind in a query text or None; further clauses of the kind are faults."""
    found = [clause for clause in clauses if isinstance(clause, kind)]
    for clause in found[1:]:
        context.fault(f"{words} stands there twice", clause.at, hint)
    return found[0] if found else None


def _refresh_every(query: s.Query, context: Context) -> int | None:
    """Return the period of REFRESH EVERY in milliseconds, or None."""
    clause = _only(query.datasets, s.RefreshClause, context, "REFRESH EVERY", "Keep one of them.")
    return None if clause is None else duration_ms(context, clause.every, "REFRESH EVERY")


def _into_graph(query: s.Query, terms: Terms, context: Context) -> NamedNode | None:
    """Return the graph of INTO GRAPH, or None; a query form other than CONSTRUCT is a fault."""
    clause = _only(query.datasets, s.IntoClause, context, "INTO GRAPH", "Register a query for each graph.")
    if clause is None:
        return None
    if query.form != "construct":
        context.fault(f"INTO GRAPH needs CONSTRUCT, not {query.form.upper()}", clause.at, "Write CONSTRUCT.")
    return terms.iri(clause.iri)


def _emit(unit: s.Unit, context: Context) -> str | int | None:
    """Return the value of EMIT in the form of the registration's ``report``, or None."""
    clause = _only(unit.endings, s.EmitClause, context, "EMIT", "Keep one of them.")
    if clause is None:
        return None
    when = clause.when
    return when if isinstance(when, str) else duration_ms(context, when, "EMIT EVERY")


def _after(unit: s.Unit, context: Context) -> int | None:
    """Return the duration of AFTER in milliseconds, or None."""
    clause = _only(unit.endings, s.AfterClause, context, "AFTER", "Keep one of them.")
    return None if clause is None else duration_ms(context, clause.after, "AFTER")


def _once_per(unit: s.Unit, root: Algebra, context: Context) -> OncePer | None:
    """Return the ONCE PER clause, or None; its variables must occur in the answer."""
    hint = "Name all variables behind one ONCE PER."
    once = _only(unit.endings, s.OnceClause, context, "ONCE PER", hint)
    if once is None:
        return None
    if unit.query.form not in ("select", "construct"):
        hint = "An ASK query emits its boolean whenever the boolean changes."
        context.fault(f"ONCE PER needs SELECT or CONSTRUCT, not {unit.query.form.upper()}", once.at, hint)
        return None
    in_scope_variables = in_scope(root)
    for variable in once.variables:
        if variable.name not in in_scope_variables:
            where = "SELECT" if unit.query.form == "select" else "the pattern"
            context.fault(f"?{variable.name} is not in {where}", variable.at, f"Add it to {where}.")
    every = None if once.every is None else duration_ms(context, once.every, "ONCE PER … EVERY")
    variables = tuple(Var(each.name) for each in once.variables)
    return OncePer(variables, every, once.until_gone, once.resolved)


def _columns(root: Algebra) -> tuple[Var, ...]:
    node = root
    while not isinstance(node, a.Project):
        assert isinstance(node, (a.Slice, a.Distinct))
        node = node.input
    return node.vars


# --- translation of CONSTRUCT and DESCRIBE


def _template(query: s.Query, context: Context, terms: Terms) -> tuple[TemplateQuad, ...]:
    if query.form != "construct":
        return ()
    translator = TripleTranslator(context, terms, template=True)
    if query.template is not None:
        graphs = query.template
    else:
        # In the short form of CONSTRUCT the pattern is the template, so the grammar allows only triples.
        assert query.where is not None
        blocks = [element for element in query.where.elements if isinstance(element, s.Triples)]
        graphs = tuple(s.TemplateGraph(None, block) for block in blocks)
    quads = []
    for part in graphs:
        graph = None if part.name is None else translator.name(part.name)
        triples = [] if part.triples is None else translator.patterns(part.triples)
        quads += [TemplateQuad(triple, graph) for triple in triples if isinstance(triple, TriplePattern)]
    return tuple(quads)


def _described(query: s.Query, root: Algebra, patterns: PatternTranslator) -> tuple[TermPattern, ...]:
    if query.form != "describe":
        return ()
    if query.describe is None:
        return tuple(patterns.scopes.visible(root))
    return tuple(patterns.triples.verb(term) for term in query.describe)


# --- checks of the whole query text


def _check_stream_variables(windows: Windows, root: Algebra, context: Context) -> None:
    """Add a fault for each stream variable that no pattern outside the windows binds."""
    named = [window for window in windows.declarations if isinstance(window.stream, Var)]
    if not named:
        return
    scopes = Scopes()
    bound: set[Var] = set()
    for node in _outside_windows(root):
        bound.update(scopes.of(node))
    for window in named:
        assert isinstance(window.stream, Var)
        if window.stream not in bound:
            name = window.stream.name
            context.fault(
                f"the stream ?{name} is bound by no pattern outside the windows",
                windows.places[window.name],
                f"Add a pattern on stored data, for instance ?thing :hasStream ?{name} .",
            )


def _outside_windows(root: Algebra) -> Iterator[Algebra]:
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, (a.Bgp, a.Path, a.Values)):
            yield node
        elif not isinstance(node, a.Window):
            if isinstance(node, a.Extend):
                yield a.Values((node.var,), ())
            if isinstance(node, (a.Graph, a.Service)) and isinstance(node.name, Var):
                yield a.Values((node.name,), ())
            stack.extend(children(node))


def _check_depth(root: Algebra, context: Context, at: int) -> None:
    """Add a fault if the query's algebra is nested too deeply for recursive code."""
    deepest = 0
    stack: list[tuple[object, int]] = [(root, 1)]
    while stack:
        node, depth = stack.pop()
        deepest = max(deepest, depth)
        if isinstance(node, tuple):
            stack.extend((item, depth) for item in node)
        elif (
            not isinstance(node, (a.Bgp, a.Values, a.Var, a.Constant)) and type(node).__module__ == a.__name__
        ):
            for name in getattr(node, "__slots__", ()):
                stack.append((getattr(node, name), depth + 1))
    limit = context.limits.operators
    if deepest > limit + 2:
        context.fault(
            f"the query nests {deepest} operators, at most {limit} are allowed", at, "Split it.", "limit"
        )


def _warn_of_parameters(context: Context) -> None:
    for name in context.parameters:
        if name not in context.found_parameters:
            context.warn(f"The parameter {name} is given but does not occur in the query.")


_SHOWN = 3
Streams = Mapping[NamedNode, Var]


def advice(root: Algebra, windows: tuple[WindowDeclaration, ...]) -> Iterator[str]:
    """Return a warning for each window with unbounded state and each group with a cross product."""
    for window in windows:
        if window.spec.kind == "all":
            stream = (
                f"<{window.stream.value}>" if isinstance(window.stream, NamedNode) else _var(window.stream)
            )
            yield f"The window [ALL] on {stream} keeps everything: its state is unbounded."
    streams = {window.name: window.stream for window in windows if isinstance(window.stream, Var)}
    for group in _groups(root):
        yield from _products(group, streams)


def _groups(root: Algebra) -> Iterator[Algebra]:
    """Iterate over the groups that are checked for cross products: query, sub-queries and branches of UNION.

    Patterns in OPTIONAL, in EXISTS, or in a UNION next to other patterns are connected by the patterns around
    them and need no check.
    """
    stack = [root]
    stack += [node.input for node in all_nodes(root) if isinstance(node, (a.Project, a.Group))]
    while stack:
        node = stack.pop(0)
        if isinstance(node, a.Union):
            stack[:0] = [node.left, node.right]
        else:
            yield node


def _products(group: Algebra, streams: Streams) -> Iterator[str]:
    component_of: dict[str, set[str]] = {}
    for names in _parts(group, streams):
        joined: set[str] = set()
        for name in names:
            other = component_of.setdefault(name, {name})
            if other is not joined:
                joined, smaller = (joined, other) if len(joined) >= len(other) else (other, joined)
                joined |= smaller
                component_of.update(dict.fromkeys(smaller, joined))
    components = {id(component): component for component in component_of.values()}.values()
    shown = [text for component in components if (text := _shown(component))]
    if len(shown) > 1:
        yield (
            f"Nothing connects {' with '.join(sorted(shown))}: "
            "each row of one is combined with each row of the other."
        )


def _parts(node: Algebra, streams: Streams) -> Iterator[Names]:
    """Iterate over sets of connected variables of a group: one per joined pattern and per condition."""
    match node:
        case _ if _is_one_row(node):
            return  # A join with a single row is no cross product worth a warning.
        case a.Join(left, right):
            yield from _parts(left, streams)
            yield from _parts(right, streams)
        case a.Bgp(patterns):
            for pattern in patterns:
                yield mentioned(a.Bgp((pattern,)))
        case a.Filter(condition, inner):
            yield expression_variables(condition)
            yield from _parts(inner, streams)
        case a.Extend(inner, var, expr):
            used = expression_variables(expr)
            yield used | {var.name} if used else frozenset()
            yield from _parts(inner, streams)
        case a.LeftJoin(left, right, condition):
            yield from _parts(left, streams)
            yield from _parts(right, streams)
            yield frozenset() if condition is None else expression_variables(condition)
        case a.Minus(left, _):
            yield from _parts(left, streams)
        case a.Graph(name, inner) | a.Window(name, inner) | a.Service(name, inner):
            own = frozenset({name.name}) if isinstance(name, Var) else frozenset()
            if isinstance(node, a.Window):
                own |= {var.name for var in node.own_vars}
            if isinstance(name, NamedNode) and name in streams:
                own |= {streams[name].name}  # STREAM ?s
            for part in _parts(inner, streams):
                yield part | own if part else part
        case a.Values(_, rows) if len(rows) < 2:
            return
        case a.OrderBy(inner) | a.Distinct(inner) | a.Slice(inner):
            yield from _parts(inner, streams)
        case a.Project(_, variables):
            yield frozenset(var.name for var in variables)
        case _:
            yield in_scope(node)


def _is_one_row(node: Algebra) -> bool:
    while isinstance(node, (a.Extend, a.OrderBy, a.Filter, a.Project)):
        node = node.input
    return isinstance(node, a.Group) and not node.keys


def _shown(component: Set[str]) -> str:
    names = sorted(name for name in component if not name.startswith("_:"))
    more = ", …" if len(names) > _SHOWN else ""
    return ", ".join(f"?{name}" for name in names[:_SHOWN]) + more


def _var(var: Var) -> str:
    return f"?{var.name}"
