"""Implementation of ``quadrill token``, which adds, lists and removes bearer tokens of a data folder."""

from __future__ import annotations

import argparse
import time
from typing import Any

from quadrill.store.folder import is_new
from quadrill.store.registry import REGISTRY, TokenRecord

from .. import security
from ..config import load_settings, names_data_folder
from ..data_folder import open_registry
from . import output
from .arguments import OfflineError


def _registry(options: argparse.Namespace) -> Any:
    """Open the registry of the data folder; raise OfflineError for a named folder without a registry."""
    given = {"data": options.data} if options.data else {}
    settings = load_settings(overrides=given, file=options.config)
    folder, is_named = settings.data_folder, bool(given) or options.config or names_data_folder()
    is_empty = folder is not None and is_new(folder) and not (folder / REGISTRY).exists()
    if is_named and is_empty and not settings.registry_url and not options.create:
        raise OfflineError(
            f"{folder} is no data folder",
            hint="Name the folder of the server with --data, or let token add --create make this one.",
        )
    return open_registry(settings)


def add(options: argparse.Namespace) -> int:
    """Execute ``quadrill token add``: create a bearer token, store its hash in the registry, and print it."""
    token = security.new_token()
    record = TokenRecord(security.hash_token(token), options.role, options.label, time.time_ns() // 1_000_000)
    with _registry(options) as registry:
        registry.tokens.add(record)
    if options.json:
        output.print_json({"token": token, **_document(record)})
    else:
        print(token)
    return 0


def show(options: argparse.Namespace) -> int:
    """Execute ``quadrill token list``: print hash prefix, role and label of each bearer token."""
    with _registry(options) as registry:
        for record in registry.tokens.all():
            if options.json:
                output.print_json(_document(record))
            else:
                print(f"{record.hash[: security.SHOWN_DIGITS]}  {record.role:5}  {record.label}")
    return 0


def _document(record: TokenRecord) -> dict[str, Any]:
    return {"hash": record.hash[: security.SHOWN_DIGITS], "role": record.role, "label": record.label}


def remove(options: argparse.Namespace) -> int:
    """Execute ``quadrill token remove``: delete the one bearer token whose hash has the given prefix."""
    with _registry(options) as registry:
        found = [record for record in registry.tokens.all() if record.hash.startswith(options.hash)]
        if len(found) != 1:
            raise security.TokenRequiredError(
                f"{len(found)} tokens have a hash that begins with {options.hash}",
                code="unknown-token",
                hint="`quadrill token list` shows them.",
            )
        registry.tokens.remove(found[0].hash)
    if options.json:
        output.print_json({"removed": found[0].hash[: security.SHOWN_DIGITS]})
    return 0
