"""Functions that open the store and the registry of a data folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyoxigraph import NamedNode

from quadrill.store.changes.commit import GraphName
from quadrill.store.documents.times import duration_ms
from quadrill.store.errors import DAMAGED, StoreFormatError, StoreUnwritableError
from quadrill.store.hosts import AllowedHosts
from quadrill.store.logs.history import Retention
from quadrill.store.quads.options import StoreOptions, system_clock_ms
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import REGISTRY, Registry, default_url
from quadrill.store.sparql.guard import TextLimits
from quadrill.store.sparql.update_plan_cache import AnalyseUpdate, no_analysis

from .config import Settings


def open_store(
    settings: Settings,
    clock_ms: Callable[[], int] = system_clock_ms,
    analyse_update: AnalyseUpdate = no_analysis,
) -> QuadStore:
    """Open the quad store of the data folder; the function ``clock_ms`` gives the time of each commit.

    ``analyse_update`` is the function that returns the shared analysis of updates that differ only in
    constants.

    Raises:
        StoreLockedError, StoreUnwritableError, StoreFormatError: the data folder cannot be used.
    """
    folder = settings.data_folder
    if folder is not None:
        make_folder(folder)
    store = QuadStore.open(
        folder,
        StoreOptions(
            durable=settings.durable,
            clock_ms=clock_ms,
            analyse_update=analyse_update,
            limits=TextLimits(
                characters=settings.max_body_bytes,
                height=settings.max_nesting,
                quads=settings.max_request_quads,
            ),
            retention=Retention(
                max_bytes=settings.change_log_bytes,
                max_age_ms=duration_ms(settings.change_log_age, "the setting change_log_age"),
            ),
            allowed_hosts=AllowedHosts(
                settings.remote_hosts,
                seconds=duration_ms(settings.remote_timeout, "the setting remote_timeout", positive=True)
                / 1000,
                max_bytes=settings.remote_max_bytes,
            ),
        ),
    )
    try:
        store.begin_epoch_of_copy()
    except BaseException:
        store.close()
        raise
    return store


def open_registry(settings: Settings) -> Registry:
    """Open the registry database and migrate its schema to the current version.

    Raises:
        RegistryError: the registry database cannot be used, or its schema is unknown.
        StoreFormatError: the registry database is damaged, or is missing although queries ran in the data
            folder.
        StoreUnwritableError: the data folder cannot be created.
    """
    folder = settings.data_folder
    if settings.registry_url:
        return Registry.open(settings.registry_url)
    if folder is None:
        return Registry.open("sqlite://")
    make_folder(folder)
    file = folder / REGISTRY
    if not file.exists() and any(log.stat().st_size for log in (folder / "engine" / "input").glob("*.log")):
        raise StoreFormatError(f"the registry {file} is gone, though queries ran here", hint=DAMAGED)
    return Registry.open(default_url(folder))


def derived_graphs_of(registry: Registry) -> frozenset[GraphName]:
    """Return the graphs of all rule sets and reports, also of a change that a crash has interrupted."""
    definitions = [
        each for record in registry.rule_sets.all() for each in (record.definition, record.following)
    ]
    graphs = [each["into"] for each in definitions if each is not None]
    for shapes in registry.shapes.all():
        graphs += [shapes.definition.get("into"), shapes.former]
    return frozenset(NamedNode(each) for each in graphs if each is not None)


def make_folder(folder: Path) -> None:
    """Create a data folder that only its owner can read.

    Raises: StoreUnwritableError if the folder cannot be created.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnwritableError(
            f"the data folder {folder} cannot be made: {error.strerror}", hint="Name another one with --data."
        ) from error
