"""The law under which a pattern over streams may be evaluated for each value of a key separately.

Let D be the contents of all windows, and G the elements of D in which a triple pattern with the key matches a
triple whose key is in a group g. A pattern P *follows* the key ?k if, for each value v of g, the solutions of
P with ?k = v over G are those over D. A pattern without windows reads the same static data everywhere, so it
always follows. For other patterns:

    basic graph pattern in a window   each triple pattern mentions ?k
    window of self-contained streams  a triple pattern of the block binds ?k in each solution of the block
    block with AT                     the same, because a solution comes from one element
    ends of a grid window (BOUNDS)    always, because the ends are those of every key
    SEQ                               each step binds ?k, and so does each match
    Join, OPTIONAL, MINUS, EXISTS     each operand with a window follows ?k and binds it in each solution
    UNION, FILTER, BIND, GRAPH        each operand follows ?k
    sub-select                        ?k is selected, and a grouping has ?k as a key; no LIMIT
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyoxigraph import NamedNode

from ..algebra.build import all_nodes, children, expressions, operands, patterns_of
from ..algebra.nodes import (
    MERGED,
    Algebra,
    Alternative,
    Bgp,
    Distinct,
    Extend,
    Filter,
    Graph,
    Group,
    Inverse,
    Join,
    LeftJoin,
    Link,
    Minus,
    NegatedSet,
    OrderBy,
    Path,
    PathExpr,
    Project,
    Slice,
    TriplePattern,
    Union,
    Var,
    Window,
)
from ..algebra.query import SequencePattern, WindowDeclaration, is_elements, is_ends
from ..algebra.show import show
from ..algebra.variables import Names, certain, in_scope, triple_variables
from ..algebra.window_times import TIMES


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The first reason why a pattern does not follow a key: a part of the text, its fault, and a remedy.

    Attributes:
        part: the part of the query text as an S-expression or a clause.
        fault: what the part lacks.
        remedy: a change that would help; None if only one key group helps.
    """

    part: str
    fault: str
    remedy: str | None = None

    def __str__(self) -> str:
        return f"{self.part} {self.fault}"


@dataclass(frozen=True)
class KeyLaw:
    """Decides whether patterns of one query follow a key.

    Attributes:
        windows: the declarations of the query's windows by name.
        self_contained: the IRIs of the streams with the promise that each solution of a block comes from one
            element.
    """

    windows: dict[NamedNode, WindowDeclaration]
    self_contained: frozenset[str]

    def obstacle(self, node: Algebra, key: str, window: Window | None = None) -> Obstacle | None:
        """Return the first reason why a pattern, inside ``window`` if given, does not follow the key."""
        if window is None and not reads_windows(node):
            return None
        match node:
            case Bgp(patterns):
                return next((_lacking(each, key, window) for each in patterns if not _has(each, key)), None)
            case Path():
                return self._path(node, key, window)
            case Window():
                return self._window(node, key)
            case Project(inner, variables):
                if Var(key) not in variables:
                    return Obstacle(
                        f"the sub-select {show(node).splitlines()[0]})", f"does not select ?{key}"
                    )
                return self.obstacle(inner, key, window)
            case Group(inner, keys, _):
                if Var(key) not in keys:
                    return Obstacle(
                        "the aggregate of a sub-select",
                        f"has no ?{key} in its GROUP BY",
                        f"add ?{key} to GROUP BY",
                    )
                return self._bound(inner, key, window)
            case Slice():
                return Obstacle("LIMIT or OFFSET of a sub-select", f"does not depend on ?{key}")
            case Join() | LeftJoin() | Minus():
                found = self._both(node.left, node.right, key, window)
            case Union(left, right):
                return self.obstacle(left, key, window) or self.obstacle(right, key, window)
            case Filter(_, inner) | Extend(inner, _, _) | Distinct(inner) | OrderBy(inner, _):
                found = self.obstacle(inner, key, window)
            case Graph(_, inner):
                return self.obstacle(inner, key, window)
            case _:
                return None
        return found or self._exists(node, key, window)

    def _both(self, left: Algebra, right: Algebra, key: str, window: Window | None) -> Obstacle | None:
        return self._bound(left, key, window) or self._bound(right, key, window)

    def _bound(self, node: Algebra, key: str, window: Window | None) -> Obstacle | None:
        """Return an obstacle of an operand, which must also bind the key in each of its solutions."""
        found = self.obstacle(node, key, window)
        if found is None and (window is not None or reads_windows(node)) and key not in certain(node):
            return Obstacle(f"the pattern {brief(node)}", f"may leave ?{key} unbound")
        return found

    def _exists(self, node: Algebra, key: str, window: Window | None) -> Obstacle | None:
        below = frozenset[str]().union(*(certain(each) for each in children(node)))
        for expr in expressions(node):
            for pattern in patterns_of(expr):
                if window is None and not reads_windows(pattern):
                    continue
                if key not in below:
                    return Obstacle("EXISTS", f"is tested for rows that may leave ?{key} unbound")
                if (found := self._bound(pattern, key, window)) is not None:
                    return found
        return None

    def _path(self, node: Path, key: str, window: Window | None) -> Obstacle | None:
        if not is_single_step(node.path):
            return Obstacle(
                f"the path {show(node)}{_place(window)}",
                "has several steps, which may come from several elements",
                self._promise(window),
            )
        if key not in in_scope(node):
            return Obstacle(f"the path {show(node)}{_place(window)}", f"lacks ?{key}", self._promise(window))
        return None

    def _window(self, node: Window, key: str) -> Obstacle | None:
        declared = self._read_by(node)
        for each in declared:
            sequence = each.spec.sequence
            if sequence is not None:
                return _sequence(sequence, key) or _unless_bound(node, key)
        by_element = isinstance(node.name, NamedNode) and is_elements(node.name)
        whole = declared and all(self._is_self_contained(each) for each in declared) and node.name != MERGED
        if by_element or whole:
            if anchored(node.input, key):
                return None
            return Obstacle(f"the block {brief(node)}", f"does not bind ?{key} in each solution")
        found = self.obstacle(node.input, key, node)
        if found is None or found.remedy is not None or not anchored(node.input, key):
            return found
        return Obstacle(found.part, found.fault, self._promise(node))

    def _read_by(self, node: Window) -> list[WindowDeclaration]:
        """Return the declarations of the windows that a block reads; all windows for a variable name."""
        if isinstance(node.name, NamedNode) and node.name in self.windows:
            return [self.windows[node.name]]
        return list(self.windows.values())

    def _is_self_contained(self, declaration: WindowDeclaration) -> bool:
        stream = declaration.stream
        return isinstance(stream, NamedNode) and stream.value in self.self_contained

    def _promise(self, window: Window | None) -> str | None:
        if window is None or window.name == MERGED:
            return None
        streams = dict.fromkeys(
            each.stream.value for each in self._read_by(window) if isinstance(each.stream, NamedNode)
        )
        given = " ".join(f"--self-contained {iri}" for iri in streams)
        return f"if each element has all triples of its solutions, promise it: {given}" if given else None


def brief(node: Algebra) -> str:
    """Return a pattern's S-expression on one line, at most 120 characters."""
    text = " ".join(show(node).split())
    return text if len(text) <= 120 else text[:117] + "..."


def reads_windows(node: Algebra) -> bool:
    """Return True if a pattern, EXISTS patterns included, reads elements of a window."""
    return any(isinstance(each, Window) and not _reads_ends(each) for each in all_nodes(node))


def _reads_ends(node: Window) -> bool:
    """Return True for the pattern of BOUNDS, which reads no elements."""
    return isinstance(node.name, NamedNode) and is_ends(node.name)


def is_single_step(path: PathExpr) -> bool:
    """Return True for a path that always walks over exactly one triple.

    >>> is_single_step(Inverse(Link(NamedNode("urn:p"))))
    True
    """
    match path:
        case Link() | NegatedSet():
            return True
        case Inverse(inner):
            return is_single_step(inner)
        case Alternative(left, right):
            return is_single_step(left) and is_single_step(right)
        case _:
            return False


def anchored(node: Algebra, key: str) -> bool:
    """Return True if in each solution of a block a triple pattern or path of the block binds the key."""
    match node:
        case Bgp(patterns):
            return any(_has(each, key) for each in patterns)
        case Path():
            return key in in_scope(node)
        case Graph(name, _) if name == TIMES:
            return False  # The time of an element is no triple of the element.
        case Join(left, right):
            return anchored(left, key) or anchored(right, key)
        case Union(left, right):
            return anchored(left, key) and anchored(right, key)
        case LeftJoin(left, _, _) | Minus(left, _):
            return anchored(left, key)
        case Project(inner, variables):
            return Var(key) in variables and anchored(inner, key)
        case Group(inner, keys, _):
            return Var(key) in keys and anchored(inner, key)
        case (
            Filter(_, inner)
            | Extend(inner, _, _)
            | Graph(_, inner)
            | Distinct(inner)
            | Slice(inner, _, _)
            | OrderBy(inner, _)
            | Window(_, inner, _)
        ):
            return anchored(inner, key)
        case _:
            return False


def needs_elements(node: Algebra) -> bool:
    """Return True if a pattern has no solution while all windows are empty."""
    match node:
        case Window(name, inner, _):
            # The merged window of C-SPARQL contains the background graphs, too.
            return name != MERGED and not _reads_ends(node) and _reads_triples(inner)
        case Join(left, right):
            return needs_elements(left) or needs_elements(right)
        case Union(left, right):
            return needs_elements(left) and needs_elements(right)
        case LeftJoin(left, _, _) | Minus(left, _):
            return needs_elements(left)
        case Group(inner, keys, _):
            return bool(keys) and needs_elements(inner)
        case (
            Filter(_, inner)
            | Extend(inner, _, _)
            | Graph(_, inner)
            | Project(inner, _)
            | Distinct(inner)
            | Slice(inner, _, _)
            | OrderBy(inner, _)
        ):
            return needs_elements(inner)
        case _:
            return False


def _reads_triples(node: Algebra) -> bool:
    """Return True if the block of a window has no solution over an empty window."""
    match node:
        case Bgp(patterns):
            return bool(patterns)
        case Path(_, path, _):
            return is_single_step(path)
        case Join(left, right):
            return _reads_triples(left) or _reads_triples(right)
        case Union(left, right):
            return _reads_triples(left) and _reads_triples(right)
        case LeftJoin(left, _, _) | Minus(left, _):
            return _reads_triples(left)
        case Group(inner, keys, _):
            return bool(keys) and _reads_triples(inner)
        case Filter(_, inner) | Extend(inner, _, _) | Graph(_, inner) | Project(inner, _) | Distinct(inner):
            return _reads_triples(inner)
        case _:
            return False


def routes_of(node: Algebra, windows: dict[NamedNode, WindowDeclaration]) -> tuple[TriplePattern | Path, ...]:
    """Return the triple patterns and paths that elements may match, in windows, their keys and SEQ steps."""
    found = dict.fromkeys(_window_patterns(node))
    for declaration in windows.values():
        spec = declaration.spec
        if spec.pattern is not None:
            found |= dict.fromkeys(_patterns(spec.pattern))
        if spec.sequence is not None:
            for step in spec.sequence.steps:
                found |= dict.fromkeys(_patterns(step.pattern))
    return tuple(found)


def _window_patterns(node: Algebra) -> Iterator[TriplePattern | Path]:
    if isinstance(node, Window):
        yield from () if _reads_ends(node) else _patterns(node.input)
    else:
        for each in operands(node):
            yield from _window_patterns(each)


def _patterns(node: Algebra) -> Iterator[TriplePattern | Path]:
    for each in all_nodes(node):
        if isinstance(each, Bgp):
            yield from each.patterns
        elif isinstance(each, Path):
            yield each


def _sequence(sequence: SequencePattern, key: str) -> Obstacle | None:
    """Return the first step of a SEQ block that does not bind the key in the one element that it matches."""
    for step in sequence.steps:
        if not anchored(step.pattern, key):
            word = "the NOT step" if step.negated else "the step"
            return Obstacle(f"{word} {brief(step.pattern)} of SEQ", f"lacks ?{key}")
    return None


def _unless_bound(node: Window, key: str) -> Obstacle | None:
    return None if key in certain(node) else Obstacle("SEQ", f"may leave ?{key} unbound")


def route_variables(route: TriplePattern | Path) -> Names:
    """Return the variables of a triple pattern or path."""
    return in_scope(route) if isinstance(route, Path) else triple_variables(route)


def _has(pattern: TriplePattern, key: str) -> bool:
    return key in triple_variables(pattern)


def _lacking(pattern: TriplePattern, key: str, window: Window | None) -> Obstacle:
    return Obstacle(f"the pattern {show(Bgp((pattern,)))[5:-1].strip()}{_place(window)}", f"lacks ?{key}")


def _place(window: Window | None) -> str:
    if window is None:
        return ""
    name = f"<{window.name.value}>" if isinstance(window.name, NamedNode) else f"?{window.name.name}"
    return f" of the window {name}"
