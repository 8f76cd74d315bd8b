"""Analysis of query texts without a store, and a cache file of analyses.

    text, dialect, base IRI, parameters --parse--> algebra --rewrite--> root --split--> rest and static parts

An analysis is half of the work that a start does for a query, so analyses of query texts are stored in a file
by a digest of their inputs (store/logs/keyed_file.py). The cache file of analyses is valid for one version of
the program's sources and libraries; another version parses all texts again. Unpickling a cached analysis can
create only algebra nodes and terms.
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
"""Steps of an analysis that only some queries need; they are stored if computed."""

Split = tuple[Algebra, tuple[StaticPattern, ...]]
"""The algebra of a query with tables in place of its static parts, and the static parts."""


class Analysis:
    """The analysis of one query text; each step of the analysis is computed on first access.

    Queries with the same text share one immutable analysis.
    """

    late_filters = False
    """True if uncertain filters are evaluated after the joins of their group (`algebra.lazy`)."""

    def __init__(self, query: ContinuousQuery, key: bytes | None = None) -> None:
        """Create an analysis; ``key`` identifies the text in the cache file, None for no storage."""
        self.query = query
        self.key = key

    @cached_property
    def root(self) -> Algebra:
        """The query's rewritten algebra, which is evaluated (`algebra.rewrites.prepare`)."""
        return prepare(self.query)

    @cached_property
    def columns(self) -> tuple[Var, ...]:
        """The columns of the rows of the query's answer."""
        return self.query.columns if self.query.form == "select" else projected(self.root)

    @cached_property
    def split(self) -> Split:
        """The query's algebra without its static parts, and these parts (`algebra.static.split_static`)."""
        return split_static(self.root, frozenset([var.name for var in self.columns]))

    @cached_property
    def arranged(self) -> dict[str, Arranged]:
        """The query's static parts by name, in the normal form in which queries share them."""
        return {part.name: arranged(part) for part in self.split[1]}

    @cached_property
    def clocked(self) -> Algebra:
        """The algebra for incremental evaluation: without static parts, with deferred BINDs and clock."""
        rest = self.split[0]
        if self.late_filters or any(isinstance(each, Extend) for each in all_nodes(rest)):
            rest = defer_binds(rest, late_filters=self.late_filters)
        return with_clock(rest)

    @cached_property
    def with_late_filters(self) -> Analysis:
        """The analysis of this query with conditions on uncertain values evaluated after joins.

        The analysis with late filters is this analysis itself if the query has no uncertain filters.
        """
        if self.late_filters or not has_uncertain_filters(self.split[0]):
            return self
        steps = {name: getattr(self, name) for name in ("root", "split", "arranged")}
        return Analysis.of_steps(None, self.query, {**steps, "late_filters": True})

    @cached_property
    def skeleton(self) -> Skeleton:
        """The skeleton of `clocked`: the query's algebra without its constants."""
        return skeleton(self.clocked)

    @cached_property
    def is_volatile(self) -> bool:
        """True if an expression of the query may have another value at each evaluation."""
        return any(is_volatile(expr) for node in all_nodes(self.clocked) for expr in expressions(node))

    @cached_property
    def depends_on_instant(self) -> bool:
        """True if the answer over equal data depends on the instant, because the query calls NOW or RAND."""
        return depends_on_instant(self.root)

    @cached_property
    def is_merged(self) -> bool:
        """True if the query reads the merge of all windows and the background dataset, as in C-SPARQL."""
        return any(isinstance(each, nodes.Window) and each.name == MERGED for each in all_nodes(self.root))

    @cached_property
    def is_ordered(self) -> bool:
        """True if the order of the answer's rows is significant."""
        return self.query.form != "ask" and has_order(self.root)

    @cached_property
    def graphs(self) -> GraphsRead:
        """The graphs that the query's patterns read."""
        return graphs_read(self.query.root)

    @classmethod
    def of_steps(cls, key: bytes | None, query: ContinuousQuery, steps: Mapping[str, Any]) -> Analysis:
        """Create a query's analysis from steps that have already been computed, by their names."""
        found = cls(query, key)
        vars(found).update(steps)
        return found


class KeptAnalyses:
    """Cache of analyses of running queries, backed by a file; safe to use from any thread.

    If an extension has changed the language (docs/extending.md), every query text is parsed again instead of
    being read from the cache.
    """

    def __init__(self, path: Path | None = None, background: Background | None = None) -> None:
        """Open the cache file of analyses at ``path``, None for no file.

        The thread of ``background`` writes the cache file of analyses, except the last write in `close`.
        """
        stamp = None if path is None else program()
        self._file = None if path is None or stamp is None else KeyedFile(path, stamp)
        self._background = background or Background(None)
        self._at_start = {} if self._file is None else self._file.values
        self._living: weakref.WeakValueDictionary[bytes, Analysis] = weakref.WeakValueDictionary()
        self._new: deque[weakref.ref[Analysis]] = deque()

    def analyse(
        self, text: str, dialect: Dialect | None, base_iri: str, parameters: Mapping[str, Any]
    ) -> Analysis:
        """Return the analysis of a text, from the cache if possible; raises the same errors as `parse`."""
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
        """Mark a running query's analysis for the cache file, because the next server start will need it."""
        if self._file is not None and analysis.key is not None and analysis.key not in self._file.known:
            self._new.append(weakref.ref(analysis))

    def forget(self) -> None:
        """Release the loaded analyses that no query has used by the end of the server start."""
        self._at_start.clear()

    def write(self) -> None:
        """Write new analyses to the cache file in the background."""
        if self._new:
            self._background.do(self._write)

    def close(self) -> None:
        """Write new analyses to the cache file, and remove analyses without a running query from it."""
        self._background.close()
        self._write()
        if self._file is not None:
            self._file.keep_only(set(self._living))

    def _write(self) -> None:
        while self._file is not None and self._new:
            analysis = self._new.popleft()()
            try:
                # The weak reference to an analysis returns None if its query has ended in the meantime.
                if analysis is not None and analysis.key is not None and analysis.key not in self._file.known:
                    self._file.add(analysis.key, _pickled(analysis))
            except (UnsupportedError, pickle.PicklingError, RecursionError):
                # An analysis that cannot be pickled is not stored, so each server start parses its query
                # text.
                continue


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
    # Optional steps of an analysis are stored only if they have been computed.
    done |= {name: vars(analysis)[name] for name in _MORE if name in vars(analysis)}
    _Writer(file, protocol=5).dump((analysis.query, done))
    return file.getvalue()


def _unpickled(key: bytes, data: bytes) -> Analysis | None:
    try:
        return Analysis.of_steps(key, *_Reader(io.BytesIO(data)).load())
    except Exception:
        # The stored analysis is unusable in spite of its correct digest, so the query text is parsed again.
        return None
