"""Validation of ``POST /loads``, a bulk load: checks members, and restricts sources to the load folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.bulk import LoadOptions, LoadProgress, RetentionLimits
from quadrill.store.bulk.java import spark_missing
from quadrill.store.bulk.load import ENGINES
from quadrill.store.bulk.sources import SourceError, find_sources
from quadrill.store.documents.times import duration_ms
from quadrill.store.errors import UnsupportedError
from quadrill.store.formats import RdfType, guess_rdf_format, rdf_format

from ..config import Settings
from ..http.errors import HttpError

_MEMBERS = {"source", "format", "graph", "engine", "strict", "max_bad", "mirror"}


def checked_load(request: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the validated request of a bulk load as its job stores it, with the list of its files.

    Raises:
        HttpError: 400 for invalid members of the load, 403 for a source outside the load folders, 404 for a
            missing source.
        UnsupportedError: the load needs Spark, which is not available.
    """
    unknown = sorted(set(request) - _MEMBERS)
    if unknown:
        raise HttpError(400, f"the load has an unknown member {unknown[0]}", code="member")
    kind = _format(request)
    files = _files(request, kind, settings)
    graph = _graph(request)
    engine = request.get("engine", "auto")
    if engine not in ENGINES:
        raise HttpError(
            400, f"the engine must be one of {', '.join(ENGINES)}, it is {engine!r}", code="member"
        )
    mirror = _flag(request, "mirror")
    if engine == "spark" or mirror:
        missing = spark_missing()
        if missing:
            raise UnsupportedError("engine: spark", missing, hint="Use auto or oxigraph.")
    return {
        "source": request["source"],
        "files": files,
        "format": kind.media_type if kind else None,
        "engine": engine,
        "graph": graph,
        "max_bad": _max_bad(request),
        "mirror": mirror,
    }


def load_options(asked: Mapping[str, Any], settings: Settings) -> LoadOptions:
    """Return the options of the bulk loader for a validated request."""
    return LoadOptions(
        sources=tuple(asked["files"]),
        kind=rdf_format(asked["format"]) if asked["format"] else None,
        graph=NamedNode(asked["graph"]) if asked["graph"] else None,
        engine=asked["engine"],
        max_bad=asked["max_bad"],
        direct_bytes=settings.load_direct_bytes,
        master=settings.spark_master or None,
        memory=settings.spark_memory,
        mirror=asked["mirror"],
    )


def kept_loads(settings: Settings) -> RetentionLimits:
    """Return the limits that the settings put on stored files of ended and abandoned bulk loads."""
    age_ms = duration_ms(settings.load_kept_age, "the setting load_kept_age")
    return RetentionLimits(age_ms / 1000, settings.load_kept_bytes)


def shown(progress: LoadProgress) -> dict[str, Any]:
    """Return the progress of a bulk load as the ``progress`` member of its job."""
    return {
        "stage": progress.stage,
        "rows": progress.rows,
        "bytes": progress.bytes,
        "read_bytes": progress.read,
        "total_bytes": progress.total,
        "bad_lines": progress.bad,
        "rate": round(progress.rows / max(progress.seconds, 1e-6)),
        "seconds": round(progress.seconds, 3),
    }


def _files(request: Mapping[str, Any], kind: RdfType | None, settings: Settings) -> list[str]:
    """Return the files that a bulk load's ``source`` names; their real paths must be in a load folder."""
    given = request.get("source")
    if not isinstance(given, str) or not given or "\0" in given:
        raise HttpError(400, "the load does not say its source", code="member")
    folders = [Path(folder).expanduser().resolve() for folder in settings.load_folders]
    candidates = [Path(given)] if Path(given).is_absolute() else [folder / given for folder in folders]
    inside = [
        each
        for each in candidates
        if _below(os.path.normpath(each), folders) or _below(os.path.realpath(each), folders)
    ]
    for candidate in inside:
        try:
            files = [source.path for source in find_sources([candidate], kind)]
        except SourceError as error:
            if os.path.exists(candidate):
                raise HttpError(400, error.message, code="member") from error
            continue
        if all(_below(os.path.realpath(file), folders) for file in files):
            return files
        raise _outside(given)
    if inside:
        raise HttpError(404, f"there is no file {given}", code="no-such-file")
    raise _outside(given)


def _below(path: str, folders: Iterable[Path]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def _outside(given: str) -> HttpError:
    return HttpError(
        403,
        f"{given} is not below a load folder",
        code="outside-load-folders",
        hint="The setting load_folders lists them; `quadrill load` uploads any file.",
    )


def _flag(request: Mapping[str, Any], name: str) -> bool:
    value = request.get(name, False)
    if not isinstance(value, bool):
        raise HttpError(400, f"the member {name} must be true or false", code="member")
    return value


def _max_bad(request: Mapping[str, Any]) -> int | None:
    value = request.get("max_bad")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise HttpError(400, "the member max_bad must be a number from 0 on", code="member")
    return 0 if _flag(request, "strict") else value


def _format(request: Mapping[str, Any]) -> RdfType | None:
    given = request.get("format")
    if given is None:
        return None
    if not isinstance(given, str):
        raise HttpError(400, "the member format must be a text", code="member")
    kind = rdf_format(given) or guess_rdf_format(f"x.{given}")
    if kind is None:
        raise HttpError(
            400,
            f"the format {given} is not known",
            code="member",
            hint="Give format as a media type or a file name ending.",
        )
    return kind


def _graph(request: Mapping[str, Any]) -> str | None:
    given = request.get("graph")
    if given is None:
        return None
    try:
        return NamedNode(given).value
    except (ValueError, TypeError) as error:
        raise HttpError(400, f"the member graph is not an IRI: {given!r}", code="member") from error
