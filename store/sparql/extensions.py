"""Extensions: Python modules that register functions, aggregates, windows and more when they are imported.

The setting ``extensions`` names extensions, and so do entry points of the group `GROUP` in installed
distributions. Every process that evaluates queries loads the same extensions: a worker process gets the names
on its command line (`loaded`), a forked process inherits the modules. docs/extending.md says what extensions
register.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import entry_points

from ..errors import ReportedError

GROUP = "quadrill.extensions"
"""The name of the entry point group by which installed distributions name their extensions."""

_loaded: dict[str, None] = {}


class ExtensionError(ReportedError):
    """An extension cannot be loaded; the server does not start."""

    code = "extension"


def load(names: Iterable[str]) -> None:
    """Load the extensions of installed distributions, then the extensions ``names``; each is loaded once.

    Args:
        names: ``module``, or ``module:function`` for a function that is called without arguments.

    Raises:
        ExtensionError: an extension cannot be imported, or raises an exception.
    """
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        place = f"the entry point {point.name}"
        _load(point.value, place if point.dist is None else f"{place} of {point.dist.name}")
    for name in names:
        _load(name, "the setting extensions")


def load_named(names: Iterable[str]) -> None:
    """Load the extensions ``names`` in a worker process.

    Raises:
        ExtensionError: an extension cannot be imported, or raises an exception.
    """
    for name in names:
        _load(name, "the server")


def load_built_in(module: str) -> None:
    """Import an extension that is part of this distribution; do nothing if the module is not installed."""
    if module in sys.modules:
        return
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise


def loaded() -> list[str]:
    """Return the names of all extensions that this process has loaded, in the order of loading."""
    return list(_loaded)


def worker_environment() -> dict[str, str] | None:
    """Return the environment variables for a worker process, with this process's module path.

    Return None if no extension is loaded: the worker process then inherits the environment.
    """
    if not _loaded:
        return None
    return {**os.environ, "PYTHONPATH": os.pathsep.join(folder or os.getcwd() for folder in sys.path)}


def _load(name: str, place: str) -> None:
    if name in _loaded:
        return
    module, _, function = name.partition(":")
    if not module:
        raise ExtensionError(
            f"{place[0].upper()}{place[1:]} has an empty name.", hint="Name a Python module."
        )
    try:
        extension = import_module(module)
        if function:
            getattr(extension, function)()
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise ExtensionError(
                f"There is no module {module}, which {place} names as an extension.",
                hint="Install its distribution, or name its folder in PYTHONPATH.",
            ) from error
        raise _failed(name, place, error) from error
    except Exception as error:
        raise _failed(name, place, error) from error
    _loaded[name] = None


def _failed(name: str, place: str, error: Exception) -> ExtensionError:
    return ExtensionError(
        f"The extension {name}, which {place} names, cannot be loaded: {type(error).__name__}: {error}",
        hint="Correct the module, or start without it.",
    )
