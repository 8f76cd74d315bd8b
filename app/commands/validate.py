"""The command ``quadrill validate``, which checks RDF files with SHACL shapes, without a server."""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import output
from .arguments import OfflineError, UsageError, add_command

if TYPE_CHECKING:
    from pyoxigraph import Quad

    from quadrill.continuous.shapes.result import Result

CONFORMS, VIOLATED, UNCHECKED = 0, 1, 2
"""Exit codes: the data conforms to the shapes, it does not, or it could not be checked."""
_RDF = ("ttl", "nt", "nq", "trig", "jsonld", "rdf")


def add_commands(commands: Any) -> None:
    """Add the command ``validate`` to the command line parser."""
    parser = add_command(
        commands,
        "validate",
        _validate,
        "check RDF files with SHACL shapes, without a server",
        "validate people.ttl --shapes shapes.ttl",
        "validate people.nt rooms.nt --shapes shapes.ttl --format ttl --output report.ttl",
        "validate people.ttl --shapes shapes.ttl --allow-warnings --format json",
        further="The exit code is 0 if the data conforms, 1 if it does not, and 2 if it could not be "
        "checked, because a file cannot be read, or the shapes are ill-formed or use what is not supported",
    )
    parser.set_defaults(failed=UNCHECKED)
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="an RDF file, a folder or a glob; all files are one data graph",
    )
    parser.add_argument(
        "--shapes",
        action="append",
        metavar="FILE",
        help="an RDF file with shapes; can be repeated (default: the data has its shapes in it)",
    )
    parser.add_argument(
        "--format",
        choices=("text", "json", *_RDF),
        help="text: a report for people, as pySHACL prints it; json: one result per line; the others: an "
        "sh:ValidationReport in that RDF format (default: text)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the report to this file")
    parser.add_argument(
        "--allow-warnings",
        action="store_true",
        help="exit with 0 if all results have the severity sh:Warning or sh:Info",
    )


def _validate(options: argparse.Namespace) -> int:
    form: str = options.format or ("json" if options.json else "text")
    if options.json and form != "json":
        raise UsageError(f"--json and --format {form} are two formats")
    # The import of the engine is slow, so usage is checked before.
    from quadrill.continuous.rules.terms import RuleTerms
    from quadrill.continuous.shapes.data_graph import DataGraph
    from quadrill.continuous.shapes.reading.reader import read_shapes
    from quadrill.continuous.shapes.report import result_row
    from quadrill.continuous.shapes.validation import facts_of, validate
    from quadrill.continuous.shapes.vocabulary import sh

    data, prefixes = _read(options.files, keep_labels=True)
    shapes, more = (data, {}) if options.shapes is None else _read(options.shapes, keep_labels=False)
    terms = RuleTerms(in_store_form=False)
    read = read_shapes(shapes, terms)
    if not read:
        output.warn(["no shape has a target, so nothing was checked"])
    results = sorted(
        validate(read, DataGraph(facts_of(data, terms), terms)), key=lambda each: str(result_row(each))
    )
    report = _report(form, results, shapes, {**prefixes, **more})
    if options.output is not None:
        options.output.write_bytes(report)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(report)
        sys.stdout.buffer.flush()
    allowed = {sh("Warning"), sh("Info")} if options.allow_warnings else set()
    return CONFORMS if all(result.severity in allowed for result in results) else VIOLATED


def _read(given: list[str], *, keep_labels: bool) -> tuple[list[Quad], dict[str, str]]:
    """Return the quads of files and the prefixes that they declare.

    Blank nodes of several files get new labels; those of one file keep theirs with ``keep_labels``.
    """
    from quadrill.store.bulk.sources import find_sources, open_source
    from quadrill.store.errors import ReportedError
    from quadrill.store.formats import parse_rdf

    sources = find_sources(given)
    quads: list[Quad] = []
    prefixes: dict[str, str] = {}
    for source in sources:
        with open_source(source) as stream:
            body = stream.read()
        rename = not keep_labels or len(sources) > 1
        base = Path(source.path).as_uri()
        try:
            quads += parse_rdf(body, source.kind, base_iri=base, rename_blank_nodes=rename)
        except ReportedError as error:
            raise OfflineError(f"{source.path}: {error.message}", hint=error.hint) from error
        if source.kind.name in ("Turtle", "TriG"):
            prefixes.update(_prefixes(body))
    return quads, prefixes


def _prefixes(body: bytes) -> dict[str, str]:
    declared = re.findall(rb"(?im)^\s*@?prefix\s+([\w.-]*):\s*<([^<>\s]*)>", body)
    return {name.decode(errors="replace"): iri.decode(errors="replace") for name, iri in declared}


def _report(form: str, results: list[Result], shapes: list[Quad], prefixes: dict[str, str]) -> bytes:
    from quadrill.continuous.shapes.report import report_text

    if form == "text":
        triples = ((quad.subject, quad.predicate, quad.object) for quad in shapes)
        return report_text(results, triples, prefixes).encode()
    if form == "json":
        return "".join(f"{_json(result)}\n" for result in results).encode()
    return _graph(form, results)


def _json(result: Result) -> str:
    """Return a result as JSON, with terms in the syntax of N-Triples."""
    from quadrill.continuous.shapes.report import COLUMNS, result_row
    from quadrill.store.terms import term_text

    row = dict(zip(COLUMNS, result_row(result), strict=True))
    shown = {
        name: term.value if name in ("path", "message") else term_text(term)  # type: ignore[union-attr]
        for name, term in row.items()
        if term is not None
    }
    return json.dumps(shown, ensure_ascii=False)


def _graph(form: str, results: list[Result]) -> bytes:
    from pyoxigraph import Triple, serialize

    from quadrill.continuous.shapes.report import report_triples
    from quadrill.continuous.shapes.vocabulary import RDF, SH, XSD
    from quadrill.store.documents.serialising import serialising
    from quadrill.store.formats import guess_rdf_format

    kind = guess_rdf_format(f"report.{form}")
    assert kind is not None
    prefixes = {"sh": SH, "xsd": XSD, "rdf": RDF}
    with serialising():
        written = serialize(
            (Triple(*statement) for statement in report_triples(results)),
            None,
            kind.format,
            prefixes=prefixes,
        )
    assert written is not None
    return written
