"""Query texts worked out as far as it goes without a store, and that over restarts.

    text, dialect, base IRI, parameters --parse--> algebra --rewrite--> root --split--> rest and static parts

This is half of what a start does for a query. So that it is done once, analyses stand in a file by a digest
of what they follow from (store/logs/keyed_file.py), which belongs to one state of the program, its sources
and libraries: another one reads all texts anew. Of what is pickled nothing else is made than nodes and terms.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyoxigraph

from quadrill.store.errors import UnsupportedError
from quadrill.store.logs.keyed_file import KEY_BYTES, KeyedFile
from quadrill.store.threads import Background

from ..algebra import canonical, graphs, nodes, query, static, template
from ..algebra.build import all_nodes, expressions
from ..algebra.canonical import Arranged, arranged
from ..algebra.graphs import GraphsRead, graphs_read
from ..algebra.lazy import defer_binds
from ..algebra.nodes import MERGED, Algebra, Extend, Var
from ..algebra.query import ContinuousQuery, Dialect
from ..algebra.rewrites import has_order, prepare
from ..algebra.scalar_functions import EXTENSION_FUNCTIONS, signatures
from ..algebra.set_functions import FUNCTIONS
from ..algebra.static import StaticPattern, is_volatile, projected, split_static
from ..algebra.template import Skeleton, skeleton
from ..algebra.uncertain import has_uncertain_filters
from ..algebra.volatile import depends_on_instant, with_clock
from .parser import has_additions, parse
from .program import program

_MORE = (
    "columns",
    "clocked",
    "skeleton",
    "is_volatile",
    "depends_on_instant",
    "is_merged",
    "is_ordered",
    "graphs",
)
"""Steps of an analysis that not every query asks for."""

Split = tuple[Algebra, tuple[StaticPattern, ...]]
"""The query with tables in the place of its static parts, and these."""


class Analysis:
    """What follows from a query alone; each step is done when somebody asks for it, and once.

    Queries of the same text share it: nothing in it changes.
    """

    late_filters = False
    """Uncertain filters are evaluated behind the joins of their group (`algebra.lazy`)."""

    def __init__(self, query: ContinuousQuery, key: bytes | None = None) -> None:
        """``key`` tells it from those of other texts; None: it is never kept."""
        self.query = query
        self.key = key

    @cached_property
    def root(self) -> Algebra:
        """The algebra that is evaluated (`algebra.rewrites.prepare`)."""
        return prepare(self.query)

    @cached_property
    def columns(self) -> tuple[Var, ...]:
        """Those of its rows."""
        return self.query.columns if self.query.form == "select" else projected(self.root)

    @cached_property
    def split(self) -> Split:
        """The rest and the static parts (`algebra.static.split_static`)."""
        return split_static(self.root, frozenset([var.name for var in self.columns]))

    @cached_property
    def arranged(self) -> dict[str, Arranged]:
        """The static parts as other queries have them, by name."""
        return {part.name: arranged(part) for part in self.split[1]}

    @cached_property
    def clocked(self) -> Algebra:
        """The rest as it is kept up to date by changes: late values (`algebra.lazy`), then the clock."""
        rest = self.split[0]
        if self.late_filters or any(isinstance(each, Extend) for each in all_nodes(rest)):
            rest = defer_binds(rest, late_filters=self.late_filters)
        return with_clock(rest)

    @cached_property
    def with_late_filters(self) -> Analysis:
        """The analysis of the query with uncertain filters behind joins; itself where it has none."""
        if self.late_filters or not has_uncertain_filters(self.split[0]):
            return self
        steps = {name: getattr(self, name) for name in ("root", "split", "arranged")}
        return Analysis.of_steps(None, self.query, {**steps, "late_filters": True})

    @cached_property
    def skeleton(self) -> Skeleton:
        """It without its constants."""
        return skeleton(self.clocked)

    @cached_property
    def is_volatile(self) -> bool:
        """Something in it differs between evaluations."""
        return any(is_volatile(expr) for node in all_nodes(self.clocked) for expr in expressions(node))

    @cached_property
    def depends_on_instant(self) -> bool:
        """Its answer may be another one at another instant, over the same contents: it calls NOW or RAND."""
        return depends_on_instant(self.root)

    @cached_property
    def is_merged(self) -> bool:
        """Its windows are one with the background, as in C-SPARQL."""
        return any(isinstance(each, nodes.Window) and each.name == MERGED for each in all_nodes(self.root))

    @cached_property
    def is_ordered(self) -> bool:
        """The order of its rows means something."""
        return self.query.form != "ask" and has_order(self.root)

    @cached_property
    def graphs(self) -> GraphsRead:
        """The graphs that it looks into."""
        return graphs_read(self.query.root)

    @classmethod
    def of_steps(cls, key: bytes | None, query: ContinuousQuery, steps: Mapping[str, Any]) -> Analysis:
        """One whose steps, by name, were done before."""
        found = cls(query, key)
        vars(found).update(steps)
        return found


class KeptAnalyses:
    """Analyses by text, those of living queries and those of a file. Any thread may call.

    Texts that mean what somebody from outside says (docs/extending.md) are always read.
    """

    def __init__(self, path: Path | None = None, background: Background | None = None) -> None:
        """``path``: the file, None keeps nothing over a restart; ``background`` writes it."""
        stamp = None if path is None else program()
        self._file = None if path is None or stamp is None else KeyedFile(path, stamp)
        self._background = background or Background(None)
        self._at_start = {} if self._file is None else self._file.values
        self._living: weakref.WeakValueDictionary[bytes, Analysis] = weakref.WeakValueDictionary()
        self._new: deque[weakref.ref[Analysis]] = deque()

    def analyse(
        self, text: str, dialect: Dialect | None, base_iri: str, parameters: Mapping[str, Any]
    ) -> Analysis:
        """What a text means; raises as `parse` does."""
        if has_additions():
            return Analysis(parse(text, dialect=dialect, base_iri=base_iri, parameters=parameters))
        given = repr(
            (text, dialect, base_iri, parameters, sorted(FUNCTIONS), EXTENSION_FUNCTIONS and signatures())
        )
        key = hashlib.blake2b(given.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()
        found = self._living.get(key)
        if found is None:
            kept = self._at_start.pop(key, None)
            found = None if kept is None else _unpickled(key, kept)
            if found is None:
                found = Analysis(parse(text, dialect=dialect, base_iri=base_iri, parameters=parameters), key)
            self._living[key] = found
        return found

    def keep(self, analysis: Analysis) -> None:
        """A query runs: its analysis will be asked for at the next start."""
        if self._file is not None and analysis.key is not None and analysis.key not in self._file.known:
            self._new.append(weakref.ref(analysis))

    def forget(self) -> None:
        """The start is over: what was kept for queries that are gone is not needed."""
        self._at_start.clear()

    def write(self) -> None:
        """Have what is new written to the file."""
        if self._new:
            self._background.do(self._write)

    def close(self) -> None:
        """Write what is new, and nothing that no living query needs."""
        self._background.close()
        self._write()
        if self._file is not None:
            self._file.keep_only(set(self._living))

    def _write(self) -> None:
        while self._file is not None and self._new:
            analysis = self._new.popleft()()
            try:
                # None by now: its query is gone.
                if analysis is not None and analysis.key is not None and analysis.key not in self._file.known:
                    self._file.add(analysis.key, _pickled(analysis))
            except (UnsupportedError, pickle.PicklingError, RecursionError):
                continue  # it is evaluated in another way, or nested too deeply: it is read anew


# --- pickled ----------------------------------------------------------------------------------------

_TERMS = (
    pyoxigraph.NamedNode,
    pyoxigraph.Literal,
    pyoxigraph.BaseDirection,
    pyoxigraph.BlankNode,
    pyoxigraph.Triple,
)
_RECORDS = {
    made
    for module in (nodes, query, static, canonical, template, graphs)
    for made in vars(module).values()
    if isinstance(made, type) and is_dataclass(made)
}
_MADE = {(made.__module__, made.__name__): made for made in (*_TERMS, *_RECORDS)}
_VALUES = {made: attrgetter("__class__", *(each.name for each in fields(made))) for made in _RECORDS}


class _Writer(pickle.Pickler):
    def reducer_override(self, item: Any) -> Any:
        values = _VALUES.get(type(item))
        return NotImplemented if values is None else (type(item), values(item)[1:])


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        found = _MADE.get((module, name))
        if found is None:
            raise pickle.UnpicklingError(f"{module}.{name} does not belong into an analysis")
        return found


def _pickled(analysis: Analysis) -> bytes:
    file = io.BytesIO()
    done = {name: getattr(analysis, name) for name in ("root", "split", "arranged")}
    # The others as far as somebody has asked for them.
    done |= {name: vars(analysis)[name] for name in _MORE if name in vars(analysis)}
    _Writer(file, protocol=5).dump((analysis.query, done))
    return file.getvalue()


def _unpickled(key: bytes, data: bytes) -> Analysis | None:
    try:
        return Analysis.of_steps(key, *_Reader(io.BytesIO(data)).load())
    except Exception:
        return None  # its digest is right and it is not: it is read anew
