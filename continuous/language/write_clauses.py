"""SELECT and its modifiers taken apart (the inverse of `select.SelectTranslator`); windows as query text."""

from __future__ import annotations

from dataclasses import dataclass

from ..algebra import nodes as a
from ..algebra.nodes import Aggregate, Algebra, Expr, OrderCondition, Var
from ..algebra.query import Dialect, WindowDeclaration
from ..algebra.variables import Scopes
from .windows import word_of


@dataclass(slots=True)
class SelectParts:
    """A query or sub-query taken apart. ``columns`` is None without a projection (ASK, CONSTRUCT)."""

    pattern: Algebra
    mode: str = ""
    columns: tuple[Var, ...] | None = None
    items: tuple[tuple[Var, Expr], ...] = ()
    grouped: bool = False
    keys: tuple[tuple[Var, Expr | None], ...] = ()
    aggregates: tuple[tuple[Var, Aggregate], ...] = ()
    having: tuple[Expr, ...] = ()
    order: tuple[OrderCondition, ...] = ()
    values: a.Values | None = None
    offset: int = 0
    limit: int | None = None


def select_parts(node: Algebra, *, projected: bool) -> SelectParts:
    """The modifiers of a pattern and what stands below them."""
    parts = SelectParts(node)
    if isinstance(node, a.Slice):
        parts.offset, parts.limit, node = node.offset, node.limit, node.input
    if projected:
        if isinstance(node, (a.Distinct, a.Reduced)):
            parts.mode = "DISTINCT " if isinstance(node, a.Distinct) else "REDUCED "
            node = node.input
        if isinstance(node, a.Project):
            parts.columns, node = node.vars, node.input
    if isinstance(node, a.OrderBy):
        parts.order, node = node.conditions, node.input
    parts.pattern = node
    extended: list[tuple[Var, Expr]] = []
    while isinstance(node, a.Extend):
        extended.insert(0, (node.var, node.expr))
        node = node.input
    if _group(parts, node):
        parts.items = tuple(extended)
    elif parts.columns is not None:
        _expressions(parts, parts.columns)
    if projected and parts.columns is None:
        parts.columns = tuple(Scopes().of(parts.pattern)) if not parts.grouped else _all_columns(parts)
    return parts


def _group(parts: SelectParts, node: Algebra) -> bool:
    """Take HAVING, the trailing VALUES and GROUP BY apart; False when there is no grouping."""
    values: a.Values | None = None
    match node:
        case a.Join(left, a.Values() as rows):
            node, values = left, rows
    having: list[Expr] = []
    while isinstance(node, a.Filter):
        having.insert(0, node.condition)
        node = node.input
    if not isinstance(node, a.Group):
        return False
    parts.grouped, parts.aggregates, parts.values, parts.having = True, node.aggregates, values, tuple(having)
    pattern = node.input
    places = {key: place for place, key in enumerate(node.keys)}
    computed: dict[Var, Expr] = {}
    last = len(places)
    while isinstance(pattern, a.Extend) and places.get(pattern.var, last) < last:
        last = places[pattern.var]
        computed[pattern.var] = pattern.expr
        pattern = pattern.input
    parts.keys = tuple((key, computed.get(key)) for key in node.keys)
    parts.pattern = pattern
    return True


def _expressions(parts: SelectParts, columns: tuple[Var, ...]) -> None:
    """Take off SELECT expressions: what was extended last, in the order of the columns."""
    places = {column: place for place, column in enumerate(columns)}
    last = len(columns)
    found: list[tuple[Var, Expr]] = []
    node = parts.pattern
    while isinstance(node, a.Extend) and places.get(node.var, last) < last:
        last = places[node.var]
        found.insert(0, (node.var, node.expr))
        node = node.input
    parts.items, parts.pattern = tuple(found), node


def _all_columns(parts: SelectParts) -> tuple[Var, ...]:
    """The columns of a grouping that is shown alone: its keys and set functions."""
    parts.items += tuple((var, var) for var, _ in parts.aggregates)
    return tuple(key for key, _ in parts.keys) + tuple(var for var, _ in parts.items)


# --- windows


def window_text(window: WindowDeclaration, dialect: Dialect, report: str | None = None) -> str:
    """The brackets of a window as its dialect writes them."""
    spec = window.spec
    match spec.kind:
        case "now" | "all":
            inside = spec.kind.upper()
        case "triples":
            inside = f"TRIPLES {spec.count}"
        case "batch":
            inside = f"RANGE TRIPLES {spec.count}"
        case "elements":
            inside = f"ELEMENTS {spec.count} STEP {spec.step}"
        case "range":
            inside = f"RANGE {duration_text(spec.width_ms, dialect)}"
        case "grid":
            word = "SLIDE" if dialect == "cqels" else "STEP"
            slide = duration_text(spec.slide_ms, dialect)
            inside = f"RANGE {duration_text(spec.width_ms, dialect)} {word} {slide}"
        case _:
            inside = word_of(spec.kind).text(spec)
    if spec.t0_ms is not None:
        inside += f" STARTING AT {spec.t0_ms}"
    if window.lateness_ms is not None:
        lateness = duration_text(window.lateness_ms, dialect) if window.lateness_ms else "0"
        inside += f" LATENESS {lateness}"
    if report is not None:
        inside += f" REPORT {report}"
    return f"[{inside}]"


_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def duration_text(milliseconds: int, dialect: Dialect) -> str:
    """A duration: ``1h30m``, in RSP-QL* ``PT1H30M``.

    >>> duration_text(5_400_000, "cqels"), duration_text(90_500, "rspql")
    ('1h30m', 'PT1M30.500S')
    """
    parts: dict[str, int] = {}
    rest = milliseconds
    for unit, size in _UNITS:
        parts[unit], rest = divmod(rest, size)
    if dialect != "rspql":
        return "".join(f"{count}{unit}" for unit, count in parts.items() if count) or "0"
    seconds = f"{parts['s']}.{parts['ms']:03}S" if parts["ms"] else f"{parts['s']}S" if parts["s"] else ""
    hours = f"{parts['h']}H" if parts["h"] else ""
    minutes = f"{parts['m']}M" if parts["m"] else ""
    time = hours + minutes + seconds
    days = f"{parts['d']}D" if parts["d"] else ""
    return f"P{days}" + (f"T{time}" if time else "") if days or time else "PT0S"
