"""Implementation of ``quadrill load --data``, which loads files into a data folder without a server."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.bulk import BulkLoader, LoadOptions
from quadrill.store.formats import RdfType, guess_rdf_format, rdf_format
from quadrill.store.quads.options import system_clock_ms
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import REGISTRY

from ..config import Settings, load_settings
from ..data_folder import open_registry, open_store
from ..upkeep.loads import shown
from .arguments import OfflineError, UsageError
from .progress import ProgressLine


def load_offline(options: argparse.Namespace) -> dict[str, Any]:
    """Load all files into a data folder as one commit; return counts of files, rows, quads and bad lines."""
    settings = load_settings(overrides={"data": options.data})
    folder = settings.data_folder
    if folder is None:
        raise OfflineError("a load into memory would be lost", hint="Name a data folder with --data.")
    asked = LoadOptions(
        sources=tuple(map(str, options.files)),
        kind=_kind(options.type),
        graph=_graph(options.graph),
        engine=options.engine,
        max_bad=0 if options.strict else options.max_bad,
        direct_bytes=settings.load_direct_bytes,
        master=options.master or settings.spark_master or None,
        memory=settings.spark_memory,
        mirror=options.mirror,
    )
    line = ProgressLine()
    try:
        with open_store(settings) as store, _rules_at_work(store, settings):
            summary = BulkLoader(store, folder / "loads").run(
                asked, report=lambda progress: line.show(shown(progress))
            )
    finally:
        line.end()
    return {
        "files": summary.files,
        "rows": summary.rows,
        "added": summary.added,
        "version": summary.version,
        "bad_lines": summary.bad,
        "quarantine": summary.quarantine,
        "violations": summary.violations,
    }


@contextmanager
def _rules_at_work(store: QuadStore, settings: Settings) -> Iterator[None]:
    """Let the rule sets and the shapes of the data folder follow the commits inside the block."""
    folder = settings.data_folder
    if not settings.registry_url and (folder is None or not (folder / REGISTRY).exists()):
        yield
        return
    with open_registry(settings) as registry:
        if not registry.rule_sets.all() and not registry.shapes.all():
            yield
            return
        # The import is slow, and most data folders have neither rule sets nor shapes.
        from ..wiring import open_rules

        _, shapes = open_rules(store, registry, settings, system_clock_ms)
        try:
            yield
        finally:
            shapes.feeds.close()


def _kind(given: str | None) -> RdfType | None:
    if given is None:
        return None
    kind = rdf_format(given) or guess_rdf_format(f"x.{given}")
    if kind is None:
        raise UsageError(
            f"the format {given} is unknown", hint="Give a media type, for instance text/turtle."
        )
    return kind


def _graph(given: str | None) -> NamedNode | None:
    try:
        return None if given is None else NamedNode(given)
    except ValueError as error:
        raise UsageError(f"--graph {given} is not an IRI") from error
