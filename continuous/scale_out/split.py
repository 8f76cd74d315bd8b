"""Split of a continuous query into key groups: the key, the stages, or the reason why there is no split.

root      Project(?room ?n, Extend(?n, Group(P, ?room, COUNT)))         key ?room, one stage
          Project(?n, Extend(?n, Group(P, (), COUNT)))                  key of P; the count in a second stage
stage 1   evaluates ``grouped`` for each key group, restricted to solutions whose key is in the group
stage 2   evaluates ``merged`` over the union of the groups' solutions
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..algebra.build import (
    UNIT,
    all_nodes,
    expressions,
    has_exists,
    patterns_of,
    sub_expressions,
    with_children,
)
from ..algebra.nodes import (
    Algebra,
    Call,
    Distinct,
    Extend,
    Filter,
    Group,
    OrderBy,
    Path,
    Project,
    Service,
    Slice,
    TriplePattern,
    Var,
)
from ..algebra.rewrites import windows_read
from ..algebra.variables import Scopes, certain, in_scope
from ..language.registration import NO_INFERRED
from ..queries.prepare import PreparedQuery
from ..windows.kinds import show_window
from .key_law import (
    KeyLaw,
    Obstacle,
    brief,
    needs_elements,
    reads_windows,
    route_variables,
    routes_of,
)

_NOT_REPEATABLE = frozenset(("RAND", "UUID", "STRUUID", "BNODE"))
_ONE_GROUP = "run it in one group with --key-groups 1"
_COUNTED = ("triples", "batch", "elements")
_SLIDING = ("now", "range", "grid", "past", "all")
_BUILT_IN = (*_COUNTED, *_SLIDING, "session", "latest", "sequence", "step")


@dataclass(frozen=True, slots=True)
class Split:
    """How key groups evaluate one query.

    Attributes:
        splits: True if several key groups may evaluate the query.
        runs: True if at least one key group may evaluate the query.
        key: the variable whose value decides the key group of a solution; None without a split.
        stages: 2 if the solutions of the groups must be merged, else 1.
        why: the reason why the query does not split, and what would help; None for a split.
        pattern: the query's pattern below its aggregates and other modifiers, where the key is bound.
        grouped: the algebra that each key group evaluates, which contains ``pattern``.
        merged: the operators of the second stage, innermost first.
        routes: the triple patterns and paths through which an element reaches the key.
        everywhere: True if a key group may have solutions without elements, so all groups run.
        timed: True if the second stage emits at instants at which no row changes.
    """

    splits: bool
    runs: bool = True
    key: Var | None = None
    stages: int = 1
    why: str | None = None
    pattern: Algebra = UNIT
    grouped: Algebra = UNIT
    merged: tuple[Algebra, ...] = ()
    routes: tuple[TriplePattern | Path, ...] = ()
    everywhere: bool = False
    timed: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the member ``scale_out`` of EXPLAIN."""
        key = [] if self.key is None else [f"?{self.key.name}"]
        return {"splits": self.splits, "key": key, "stages": self.stages, "why": self.why}


def split_of(prepared: PreparedQuery, self_contained: frozenset[str] = frozenset()) -> Split:
    """Return the split of a query with windows.

    Args:
        prepared: the query with its report and output.
        self_contained: the IRIs of the streams of which each solution of a block comes from one element.
    """
    reason = _never(prepared)
    if reason is not None:
        return Split(False, runs=False, why=reason)
    search = _Search(prepared, self_contained)
    reason = search.reason_for_one_group()
    if reason is not None:
        return Split(False, why=f"{reason}; {_ONE_GROUP}")
    return search.result()


def _never(prepared: PreparedQuery) -> str | None:
    """Return why no key group can evaluate the query, because its answer depends on more than its inputs."""
    query = prepared.query
    calls = {
        each.name
        for node in all_nodes(query.root)
        for expr in expressions(node)
        for each in sub_expressions(expr)
        if isinstance(each, Call)
    }
    found = sorted(calls & _NOT_REPEATABLE)
    if found:
        return f"{found[0]}() has no value that a repeated batch would compute again; leave it out"
    if any(isinstance(each, Service) for each in all_nodes(query.root)):
        return "SERVICE reads another server at an unknown time; load its data as a static file"
    if prepared.source_specs:
        return "a remote graph is read at an unknown time; load its data as a static file"
    if prepared.into_graph is not None:
        return "INTO GRAPH keeps a graph of one store up to date; leave it out"
    entailment = prepared.registration.evaluation.entailment
    if prepared.rules is not None or entailment not in (None, NO_INFERRED):
        return "entailment reads a rule set of one store; leave it out"
    if not query.windows:
        return "the query has no window, so it has no event time"
    return None


class _Search:
    """Search for the key of one query."""

    def __init__(self, prepared: PreparedQuery, self_contained: frozenset[str]) -> None:
        self._prepared = prepared
        self._query = prepared.query
        self._root = prepared.analysis.root
        self._windows = {each.name: each for each in windows_read(self._query)}
        self._law = KeyLaw(self._windows, self_contained)
        self._modifiers, self._pattern = _peeled(self._root)

    def reason_for_one_group(self) -> str | None:
        """Return why no key at all can split the query; None if a key may."""
        prepared, windows = self._prepared, self._query.windows
        output, closes = prepared.output, prepared.report.kind == "on-window-close"
        kinds = {window.spec.kind for window in windows}
        for window in windows:
            if window.spec.kind in _COUNTED or window.spec.kind not in _BUILT_IN:
                return f"the window {show_window(window.spec)} counts the elements of all keys"
            if window.bounds is not None and window.spec.kind != "grid":
                return f"the BOUNDS of the window {show_window(window.spec)} follow the elements of all keys"
        if prepared.report.non_empty and output != "rstream":
            return "non_empty with an output other than rstream depends on the windows of all keys"
        if not closes and prepared.report.kind != "periodic" and prepared.analysis.depends_on_instant:
            return "NOW() changes at each instant of all keys; report on window closes or at an interval"
        if closes and "session" in kinds and (output != "rstream" or len(windows) > 1):
            return "a closed SESSION is compared with the closed session of any other key"
        if self._timed and not kinds <= {*_SLIDING, *(("latest",) if closes else ())}:
            return "the answer is emitted at each instant of all keys"
        if any(isinstance(each, Slice) for each in all_nodes(self._pattern) if reads_windows(each)):
            return "LIMIT or OFFSET of a sub-select chooses among the rows of all keys"
        return None

    @property
    def _timed(self) -> bool:
        """True if a query emits its whole answer at instants that depend on the elements of all keys."""
        return self._prepared.output == "rstream" and self._prepared.report.kind == "on-content-change"

    def result(self) -> Split:
        """Return the split by the first variable that follows the law, or the nearest miss."""
        best: tuple[int, Obstacle] | None = None
        for key in self._candidates():
            obstacle = self._obstacle(key)
            if obstacle is None:
                return self._split(key)
            missing = sum(1 for each in self._routes if key not in route_variables(each))
            if best is None or missing < best[0]:
                best = missing, obstacle
        if best is None:
            return Split(False, why=f"no triple pattern of a window has a variable; {_ONE_GROUP}")
        obstacle = best[1]
        remedy = f"{obstacle.remedy}, or {_ONE_GROUP}" if obstacle.remedy else _ONE_GROUP
        return Split(False, why=f"{obstacle}; {remedy}")

    def _candidates(self) -> Iterator[str]:
        """Yield the variables that may be the key: those of GROUP BY, then of the text.

        A blank node of the text, or the middle of a path of several steps, is no key.
        """
        known = frozenset[str]().union(*map(route_variables, self._routes))
        known |= {name for each in self._query.windows if each.spec.sequence for name in in_scope(self._root)}
        keys = [key.name for node in self._modifiers if isinstance(node, Group) for key in node.keys]
        listed = dict.fromkeys([*keys, *(var.name for var in Scopes().of(self._pattern)), *sorted(known)])
        yield from [name for name in listed if name in known and not Var(name).hidden]

    @property
    def _routes(self) -> tuple[TriplePattern | Path, ...]:
        return routes_of(self._root, self._windows)

    def _obstacle(self, key: str) -> Obstacle | None:
        found = self._law.obstacle(self._pattern, key)
        if found is not None:
            return found
        if key not in certain(self._pattern):
            return Obstacle(f"the pattern {brief(self._pattern)}", f"may leave ?{key} unbound")
        for window in self._query.windows:
            spec = window.spec
            if spec.kind in ("session", "latest") and Var(key) not in spec.keys:
                return Obstacle(
                    f"the window {show_window(spec)}",
                    f"lacks ?{key}",
                    f"add ?{key} to its variables after BY",
                )
        once = self._query.emission.once_per
        if once is not None and Var(key) not in once.variables:
            return Obstacle("ONCE PER", f"lacks ?{key}", f"add ?{key} to ONCE PER")
        return None

    def _split(self, key: str) -> Split:
        grouped, merged = self._stages(key)
        if merged is not None:
            reason = self._no_second_stage(merged)
            if reason is not None:
                return Split(False, why=f"{reason}; {_ONE_GROUP}")
        return Split(
            True,
            key=Var(key),
            stages=1 if merged is None else 2,
            pattern=self._pattern,
            grouped=grouped,
            merged=merged or (),
            routes=tuple(
                each for each in self._routes if isinstance(each, Path) or key in route_variables(each)
            ),
            everywhere=not needs_elements(self._pattern),
            timed=merged is not None and (self._timed or self._prepared.report.kind != "on-content-change"),
        )

    def _no_second_stage(self, merged: tuple[Algebra, ...]) -> str | None:
        if self._query.emission.once_per is not None:
            return "ONCE PER chooses among the rows of all keys"
        if any(has_exists(expr) for node in merged for expr in expressions(node)):
            return "EXISTS above an aggregate without the key"
        if self._prepared.report.kind == "on-window-close" and any(
            window.spec.kind == "session" for window in self._query.windows
        ):
            return "the closed SESSION of each key is an answer of its own; add its key to GROUP BY"
        return None

    def _stages(self, key: str) -> tuple[Algebra, tuple[Algebra, ...] | None]:
        """Return the algebra of the groups, and the operators of the second stage; None for one stage."""
        grouped, upper = self._pattern, list(self._modifiers)
        while upper and self._keeps_groups(upper[-1], key):
            grouped = with_children(upper.pop(), [grouped])
        form, output = self._query.form, self._prepared.output
        merged = tuple(reversed(upper))
        if form == "ask" or self._timed:
            return grouped, merged
        if form == "construct" and output in ("dstream", "changes"):
            # A quad is deleted when its last solution goes, so quads of several groups must be counted.
            if not merged and all(Var(key) in each.variables for each in self._query.template):
                return self._root, None
            return grouped, merged
        if not merged and (output == "rstream" or Var(key) in self._columns):
            return self._root, None
        if output == "rstream" and all(isinstance(each, Project) for each in merged):
            return self._root, None
        # A row that leaves in one group and comes in another one at the same instant is no change.
        return grouped, merged

    @property
    def _columns(self) -> tuple[Var, ...]:
        return self._prepared.analysis.columns

    def _keeps_groups(self, node: Algebra, key: str) -> bool:
        """Return True if a modifier treats the rows of each key separately, and keeps the key."""
        match node:
            case Filter():
                return not any(
                    reads_windows(each) for expr in expressions(node) for each in patterns_of(expr)
                )
            case Extend():
                return True
            case Project(_, variables):
                return Var(key) in variables
            case Group(_, keys, _):
                return Var(key) in keys
            case Distinct(inner):
                return key in in_scope(inner)
            case _:
                return False


def _peeled(root: Algebra) -> tuple[list[Algebra], Algebra]:
    """Return the operators above the query's pattern, outermost first, and the pattern.

    Operators are peeled down to the outermost aggregate; without one, FILTER and BIND belong to the pattern.
    """
    chain: list[Algebra] = []
    node = root
    while isinstance(node, (Slice, Distinct, Project, OrderBy, Extend, Filter, Group)):
        if isinstance(node, Filter) and any(
            reads_windows(each) for expr in expressions(node) for each in patterns_of(expr)
        ):
            break
        chain.append(node)
        node = node.input
    while chain and isinstance(chain[-1], (Extend, Filter)):
        node = chain.pop()
    return chain, node
