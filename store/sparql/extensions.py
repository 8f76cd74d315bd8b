"""Extensions: Python modules that register functions, aggregates, windows and more when they are imported.

The operator names them (the setting ``extensions``), or an installed distribution does by an entry point of
the group `GROUP`. Every process that evaluates loads the same ones: a worker process gets their names on its
command line (`loaded`), a forked one has them already. docs/extending.md says what they register.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import entry_points

from ..errors import ReportedError

GROUP = "quadrill.extensions"
"""The group of entry points that name extensions."""

_loaded: dict[str, None] = {}


class ExtensionError(ReportedError):
    """An extension cannot be loaded; the server does not start."""

    code = "extension"


def load(names: Iterable[str]) -> None:
    """Load the extensions of installed distributions, then those with these names; each is loaded once.

    Args:
        names: ``module``, or ``module:function`` for one that is called without arguments.

    Raises:
        ExtensionError: one cannot be imported, or raises an exception.
    """
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        place = f"the entry point {point.name}"
        _load(point.value, place if point.dist is None else f"{place} of {point.dist.name}")
    for name in names:
        _load(name, "the setting extensions")


def load_named(names: Iterable[str]) -> None:
    """Load the extensions with these names, in a worker process.

    Raises:
        ExtensionError: as `load`.
    """
    for name in names:
        _load(name, "the server")


def load_built_in(module: str) -> None:
    """Load an extension that is a package of this distribution; one that is not installed is passed over."""
    if module in sys.modules:
        return
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise


def loaded() -> list[str]:
    """The names of all extensions that this process has loaded, in their order."""
    return list(_loaded)


def worker_environment() -> dict[str, str] | None:
    """The environment in which a worker process finds the same modules; None for this process's own."""
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
