"""The rewrites of a query's algebra, in their order, before its static parts are split off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyoxigraph import Literal, NamedNode

from quadrill.store.errors import QueryTextError

from .build import (
    UNIT,
    children,
    conjuncts,
    expressions,
    join,
    operands,
    patterns_of,
    put_patterns,
    with_children,
    with_expressions,
    with_operands,
    with_patterns,
)
from .canonical import rename
from .corrections import ANY_MARK, as_both_read
from .graph_scope import hide_graph_names
from .nodes import (
    Algebra,
    Bgp,
    Call,
    Constant,
    Distinct,
    Exists,
    Expr,
    Extend,
    Filter,
    FunctionCall,
    Graph,
    Group,
    Join,
    LeftJoin,
    Minus,
    OrderBy,
    Path,
    Project,
    Slice,
    TableNode,
    Values,
    Var,
    Window,
)
from .query import ContinuousQuery, WindowDeclaration
from .variables import NO_NAMES, Names, in_scope, mentioned
from .volatile import read_timestamps, tie_to_rows
from .window_times import read_window_times

_TRUE = Literal("true", datatype=NamedNode("http://www.w3.org/2001/XMLSchema#boolean"))


def move_outward(root: Algebra) -> Algebra:
    """Return the query with each FILTER and BIND moved to a group that binds its variables.

    Raises QueryTextError for a BIND that would have to move although its block uses its variable.

    The queries of the RSP-QL* paper filter inside ``WINDOW <w> { GRAPH ?g { ... } }`` by variables that only
    patterns outside the block bind, so that SPARQL would see them unbound. A FILTER or BIND whose variables
    are bound only outside of its block moves to the nearest enclosing group that binds the variables
    (docs/semantics.md, section 5). Before:

        Join(Bgp(?x :limit ?l), Window(w, Filter(?v > ?l, Bgp(?x :value ?v))))

    after:

        Filter(?v > ?l, Join(Bgp(?x :limit ?l), Window(w, Bgp(?x :value ?v))))

    A FILTER that moves but stands inside OPTIONAL becomes a condition of the left join. No FILTER or BIND
    moves out of EXISTS, MINUS, UNION branches or sub-queries. If no enclosing group binds a variable of a
    FILTER or BIND, the clause stays, and the variable is unbound.
    """
    return _GroupParts(in_scope(root), NO_NAMES, NO_NAMES).rewrite(root)


@dataclass(frozen=True, slots=True)
class _Moved:
    """A FILTER (``var`` None) or BIND that may move; ``needs`` are its variables from outer groups."""

    var: Var | None
    expr: Expr
    needs: Names


class _GroupParts:
    """One group of a query's pattern: its joined operands, BINDs and FILTERs, and the blocks inside it.

    ``bound`` are the variables that the group binds, ``outer`` the variables of enclosing groups to which a
    FILTER may move, and ``substituted`` the variables that EXISTS substitutes. A FILTER or BIND moves only
    out of a GRAPH or window ``block``; a block nested in another block can also use the ``outer`` variables
    of the enclosing block.
    """

    def __init__(self, bound: Names, outer: Names, substituted: Names, *, block: bool = False) -> None:
        self._bound = bound
        self._outer = outer
        self._substituted = substituted
        self._inside_block = block
        self._pending: list[_Moved] = []
        self.leaving: list[_Moved] = []

    def rewrite(self, node: Algebra) -> Algebra:
        """Return the group with FILTERs and BINDs placed; `leaving` has those that move further out."""
        node = self._walk(node)
        node = self._place_binds(node)
        for moved in sorted(self._pending, key=lambda each: each.var is None):
            if moved.needs & self._outer - self._bound:
                self.leaving.append(moved)
            elif moved.var is None:
                node = Filter(moved.expr, node)
            else:
                node = Extend(node, moved.var, moved.expr)
        return node

    def _walk(self, node: Algebra) -> Algebra:
        match node:
            case Bgp() | Path() | Values() | TableNode():
                return node
            case Join(left, right):
                return self._place_binds(join(self._walk(left), self._walk(right)))
            case Window() | Graph():
                return self._block(node)
            case Filter(condition, inner):
                inner = self._place_binds(self._walk(inner))
                condition = self._exists(condition, in_scope(inner))
                needs = self._needs(condition)
                if not needs:
                    return Filter(condition, inner)
                self._pending.append(_Moved(None, condition, needs))
                return inner
            case Extend(inner, var, expr):
                inner = self._place_binds(self._walk(inner))
                expr = self._exists(expr, in_scope(inner))
                needs = self._needs(expr)
                if not needs:
                    return Extend(inner, var, expr)
                self._pending.append(_Moved(var, expr, needs))
                return inner
            case LeftJoin():
                return self._optional(node)
            case Minus(left, right):
                return Minus(self._walk(left), self._closed_group(right))
            case _:
                # No FILTER or BIND moves out of UNION branches, sub-queries and SERVICE.
                below = NO_NAMES.union(*map(in_scope, children(node)))
                node = with_expressions(node, [self._exists(each, below) for each in expressions(node)])
                return with_children(node, [self._closed_group(each) for each in children(node)])

    def _closed_group(self, node: Algebra) -> Algebra:
        return _GroupParts(in_scope(node), NO_NAMES, self._substituted).rewrite(node)

    def _exists(self, expr: Expr, bound: Names) -> Expr:
        given = self._substituted | bound
        inside = [_GroupParts(in_scope(each), NO_NAMES, given).rewrite(each) for each in patterns_of(expr)]
        return put_patterns(expr, iter(inside))

    def _needs(self, expr: Expr) -> Names:
        """Return the variables of an expression that only an enclosing group binds."""
        if not self._inside_block:
            return NO_NAMES
        return (_direct_variables(expr) - self._bound - self._substituted) & self._outer

    def _block(self, node: Window | Graph) -> Algebra:
        inside = in_scope(node.input)
        block = _GroupParts(inside, (self._bound | self._outer) - inside, self._substituted, block=True)
        inner = block.rewrite(node.input)
        for moved in block.leaving:
            if moved.var is not None and moved.var.name in mentioned(inner) | _mentioned_by(
                block.leaving, moved
            ):
                raise QueryTextError(
                    f"BIND(... AS ?{moved.var.name}) uses {_list(moved.needs)}, bound only outside"
                    f" its block, so it would have to move out; but ?{moved.var.name} is used in it",
                    hint="move the BIND and what uses its variable out of the block",
                )
            # Patterns of EXISTS are evaluated over the dataset of the block in which they were written.
            patterns = [replace(node, input=each) for each in patterns_of(moved.expr)]
            expr = put_patterns(moved.expr, iter(patterns))
            self._pending.append(replace(moved, expr=expr))
        return replace(node, input=inner)

    def _optional(self, node: LeftJoin) -> Algebra:
        left = self._walk(node.left)
        optional = _GroupParts(in_scope(node.right), in_scope(left), self._substituted)
        right = optional.rewrite(node.right)
        both = in_scope(left) | in_scope(right)
        conditions = [] if node.condition is None else [self._exists(node.condition, both)]
        conditions += [moved.expr for moved in optional.leaving if moved.var is None]
        binds = [moved for moved in optional.leaving if moved.var is not None]
        if not binds:
            return LeftJoin(left, right, _conjunction(conditions))
        # A BIND inside OPTIONAL that needs the left side is evaluated above the left join, only for rows that
        # the right side extended.
        matched = Var(f"_:matched.{binds[0].var.name}" if binds[0].var else "_:matched")
        result: Algebra = LeftJoin(left, Extend(right, matched, Constant(_TRUE)), _conjunction(conditions))
        for bind in binds:
            assert bind.var is not None
            if bind.var.name in mentioned(right) | _mentioned_by(optional.leaving, bind):
                raise QueryTextError(
                    f"BIND(... AS ?{bind.var.name}) uses {_list(bind.needs)}, bound only outside its"
                    f" OPTIONAL, and ?{bind.var.name} is used inside it",
                    hint="move the BIND behind the OPTIONAL",
                )
            value = Call("IF", (Call("BOUND", (matched,)), bind.expr, Call("COALESCE", ())))
            result = Extend(result, bind.var, value)
        return result

    def _place_binds(self, node: Algebra) -> Algebra:
        """Put each moved BIND above the first operand that binds its variables, below users of its value."""
        for moved in [each for each in self._pending if each.var is not None]:
            if not moved.needs <= in_scope(node):
                continue
            var = moved.var
            assert var is not None
            operands = conjuncts(node)
            using = [each for each in operands if var.name in in_scope(each)]
            free = join(*(each for each in operands if each not in using))
            if using and (free == UNIT or not moved.needs <= in_scope(free)):
                raise QueryTextError(
                    f"BIND(... AS ?{var.name}) would have to move out of its block to where"
                    f" {_list(moved.needs)} is bound, but ?{var.name} is bound there already",
                    hint="give the BIND another variable",
                )
            node = join(Extend(free, var, moved.expr), *using)
            self._pending.remove(moved)
        return node


def _direct_variables(expr: Expr) -> Names:
    """Return the variables that an expression reads outside its EXISTS patterns."""
    match expr:
        case Var(name):
            return frozenset((name,))
        case Call(_, args) | FunctionCall(_, args):
            return frozenset().union(*map(_direct_variables, args))
        case Exists() | Constant():
            return NO_NAMES


def _mentioned_by(moving: Iterable[_Moved], but: _Moved) -> Names:
    return frozenset().union(*(_direct_variables(each.expr) for each in moving if each is not but))


def _conjunction(conditions: list[Expr]) -> Expr | None:
    if not conditions:
        return None
    result, *others = conditions
    for each in others:
        result = Call("&&", (result, each))
    return result


def _list(names: Names) -> str:
    return ", ".join(f"?{name}" for name in sorted(names))


def rename_subquery_variables(root: Algebra, kept: Names = NO_NAMES) -> Algebra:
    """Return the query with hidden variables of sub-queries in EXISTS renamed apart from the tested row.

    A variable that a sub-query does not select is local to the sub-query (SPARQL 1.1 section 12). Oxigraph's
    optimizer confuses a local variable of such a sub-query with the tested row's variable of the same name,
    and takes the local variable to be bound or not a number. The names in ``kept`` have a meaning outside the
    query text and are not renamed.
    """
    return _rename_subquery_variables(root, NO_NAMES, kept, set(mentioned(root)))


def _rename_subquery_variables(node: Algebra, row: Names, kept: Names, taken: set[str]) -> Algebra:
    """Rename hidden variables below a node; ``row`` are the variables of rows that EXISTS tests."""
    if row and isinstance(node, Project | Group):
        names: dict[str, str] = {}
        for name in sorted((mentioned(node) - in_scope(node) - kept) & row):
            own = name
            while own in taken:
                own += "_"
            taken.add(own)
            names[name] = own
        node = rename(node, names) if names else node
    below = children(node)
    inside = operands(node)[: -len(below) or None]
    tested = row.union(*map(in_scope, below)) if inside else row
    changed = [_rename_subquery_variables(each, tested, kept, taken) for each in inside]
    return with_operands(
        node, [*changed, *(_rename_subquery_variables(each, row, kept, taken) for each in below)]
    )


def drop_idle_minus(node: Algebra) -> Algebra:
    """Return the query without every MINUS that cannot remove a row.

    A MINUS whose sides share no variable removes nothing (SPARQL 1.1 section 8.3.3). For a MINUS inside
    EXISTS, Oxigraph would count the variables of the tested row as shared and remove rows.
    """
    if isinstance(node, Minus) and not in_scope(node.left) & in_scope(node.right):
        return drop_idle_minus(node.left)
    return with_operands(node, [drop_idle_minus(each) for each in operands(node)])


def has_order(root: Algebra) -> bool:
    """Return True if the query itself, not only a sub-query, has ORDER BY, LIMIT or OFFSET."""
    if isinstance(root, Slice):
        return True
    inner = root.input if isinstance(root, Distinct) else root
    inner = inner.input if isinstance(inner, Project) else inner
    return isinstance(inner, OrderBy)


def windows_read(query: ContinuousQuery) -> tuple[WindowDeclaration, ...]:
    """Return the windows that the algebra of `prepare` reads: those of the text, in all their forms."""
    return tuple(
        content
        for window in query.windows
        for content in (window.contents if window.by_element or window.bounds else (window,))
    )


def prepare(query: ContinuousQuery) -> Algebra:
    """Return the algebra to evaluate, after all rewrites of docs/semantics.md, section 5."""
    windows = windows_read(query)
    streams = {each.name: each.stream for each in windows if isinstance(each.stream, Var)}
    # A query that was not parsed from a text may contain any construct of the list of corrections.
    marked = not query.text or ANY_MARK.search(query.text)
    root = query.root if len(windows) == len(query.windows) else read_window_times(query.root, query.windows)
    root = as_both_read(hide_graph_names(root)) if marked else root
    root = rename_subquery_variables(root, frozenset(each.name for each in streams.values()))
    root = bind_streams(root, streams)
    root = lift_modifiers(drop_idle_minus(move_outward(root)))
    if query.form != "ask":
        root = with_projection(root)
    return tie_to_rows(read_timestamps(root))


def bind_streams(node: Algebra, streams: dict[NamedNode, Var]) -> Algebra:
    """Return the query in which each window on a variable stream names the variable that it binds."""
    if not streams:
        return node
    if isinstance(node, Window) and isinstance(node.name, NamedNode) and node.name in streams:
        return replace(node, stream=streams[node.name])
    return with_operands(node, [bind_streams(each, streams) for each in operands(node)])


def lift_modifiers(node: Algebra) -> Algebra:
    """Move projections and solution modifiers from inside a window to outside the window.

    The rewrite turns ``Window(w, Project(P, columns))``, which C-SPARQL's merged window around a whole query
    produces, into ``Project(Window(w, P), columns)``. Moving projections and modifiers out of a window is
    safe, because a window changes only the dataset of patterns.
    """
    match node:
        case Window(NamedNode(), Project() | Distinct() | Slice() | OrderBy() as inner, None):
            inside = lift_modifiers(replace(node, input=inner.input))
            lifted: Algebra = replace(inner, input=inside)
            patterns = [each for expr in expressions(lifted) for each in patterns_of(expr)]
            return with_patterns(lifted, [replace(node, input=each) for each in patterns])
        case Project() | Distinct() | Slice() | OrderBy():
            return with_children(node, [lift_modifiers(each) for each in children(node)])
        case _:
            return node


def with_projection(node: Algebra) -> Algebra:
    """Return the query with an explicit Project of its visible variables below its LIMIT and DISTINCT."""
    if isinstance(node, (Slice, Distinct)):
        return with_children(node, [with_projection(each) for each in children(node)])
    if isinstance(node, Project):
        return node
    return Project(node, tuple(Var(name) for name in sorted(in_scope(node)) if not name.startswith("_:")))
