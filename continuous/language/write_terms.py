"""Terms, windows and durations as query text: prefixed names, short literals, blank node labels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from ..algebra import nodes as a
from ..algebra.nodes import Var
from ..algebra.query import Dialect, WindowDeclaration
from .terms import RDF_TYPE, XSD, XSD_BOOLEAN, XSD_DECIMAL, XSD_DOUBLE, XSD_INTEGER

_LOCAL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?")
_BARE = {
    XSD_INTEGER: re.compile(r"[+-]?[0-9]+"),
    XSD_DECIMAL: re.compile(r"[+-]?[0-9]*\.[0-9]+"),
    XSD_DOUBLE: re.compile(r"[+-]?(?:[0-9]+\.[0-9]*|\.?[0-9]+)[eE][+-]?[0-9]+"),
    XSD_BOOLEAN: re.compile("true|false"),
}
_PLACEHOLDER = re.compile(r"\$[^$]+\$", re.DOTALL)


class Names:
    """How one text writes its terms; knows afterwards which prefixes it used.

    A hidden variable is a blank node, ``[]`` where it occurs once. With ``free`` it is a variable
    ``?_1``: for a pattern that is shown and not read back, whose hidden variables may reach over groups.
    """

    def __init__(
        self, prefixes: Mapping[str, str], dialect: Dialect, nodes: object, *, free: bool = False
    ) -> None:
        self.dialect = dialect
        self.used: set[str] = set()
        self.count = Counter(_variables(nodes))
        self._prefixes = sorted(prefixes.items(), key=lambda item: -len(item[1]))
        self._free = free
        self._hidden: dict[str, str] = {}
        self._iris: dict[NamedNode, str] = {}

    def term(self, term: a.TermPattern | a.Term) -> str:
        """A term of a pattern."""
        match term:
            case Var():
                return self.var(term)
            case NamedNode():
                return self.iri(term)
            case Literal():
                return self.literal(term)
            case Triple(subject=subject, predicate=predicate, object=obj):
                return f"<<( {self.term(subject)} {self.verb(predicate)} {self.term(obj)} )>>"
            case a.TripleTerm(subject, predicate, obj):
                return f"<<( {self.term(subject)} {self.verb(predicate)} {self.term(obj)} )>>"
            case BlankNode():
                return str(term)

    def var(self, var: Var) -> str:
        """A variable, or the blank node that a hidden one stands for."""
        if not var.hidden:
            return f"?{var.name}"
        if not self._free and self.count[var.name] == 1:
            return "[]"
        known = self._hidden.get(var.name)
        if known is None:
            known = self._hidden[var.name] = self._fresh()
        return known

    def _fresh(self) -> str:
        number = len(self._hidden) + 1
        if not self._free:
            return f"_:b{number}"
        prefix = "_"
        while f"{prefix}{number}" in self.count:
            prefix += "_"
        return f"?{prefix}{number}"

    def verb(self, term: NamedNode | Var) -> str:
        """A predicate: ``a`` for rdf:type."""
        return "a" if term == RDF_TYPE else self.term(term)

    def iri(self, iri: NamedNode) -> str:
        """A prefixed name where a declared namespace fits, else the whole IRI."""
        known = self._iris.get(iri)
        if known is None:
            known = self._iris[iri] = self._short(iri.value) or str(iri)
        return known

    def _short(self, iri: str) -> str | None:
        for prefix, namespace in self._prefixes:
            if iri.startswith(namespace) and _LOCAL.fullmatch(iri, len(namespace)):
                self.used.add(prefix)
                return f"{prefix}:{iri[len(namespace) :]}"
        return None

    def literal(self, literal: Literal) -> str:
        """A literal: numbers and truth values bare, a text that looks like a parameter with its datatype."""
        bare = _BARE.get(literal.datatype)
        if bare is not None and bare.fullmatch(literal.value):
            return literal.value
        if literal.language is not None:
            return str(literal)
        if literal.datatype == NamedNode(XSD + "string"):
            placeholder = self.dialect != "sparql" and _PLACEHOLDER.fullmatch(literal.value)
            return f"{literal}^^{self.iri(literal.datatype)}" if placeholder else str(literal)
        return f"{Literal(literal.value)}^^{self.iri(literal.datatype)}"


def _variables(node: object) -> Iterator[str]:
    """The name of every occurrence of a variable, in anything made of algebra nodes."""
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, Var):
            yield each.name
        elif isinstance(each, tuple):
            stack.extend(each)
        elif type(each).__module__ in (a.__name__, _QUERY_MODULE):
            stack.extend(getattr(each, name) for name in getattr(each, "__slots__", ()))


_QUERY_MODULE = WindowDeclaration.__module__


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
