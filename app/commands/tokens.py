"""``quadrill token``: make, list and remove bearer tokens in the registry of a data folder."""

from __future__ import annotations

import argparse
import time
from typing import Any

from quadrill.store.registry import TokenRecord

from .. import security
from ..config import load_settings
from ..data_folder import open_registry
from .given import add_data_options


def add_commands(commands: Any) -> None:
    """Add ``token add``, ``token list`` and ``token remove``."""
    summary = "make, list and remove bearer tokens"
    parser = commands.add_parser("token", help=summary, description=f"{summary} of a data folder")
    add_data_options(parser)
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", help="make a token and print it, once")
    add.add_argument("role", choices=tuple(security.ROLES))
    add.add_argument("--label", default="", help="whose it is")
    add.set_defaults(run=_add)
    listing = actions.add_parser("list", help="list tokens by the first digits of their hashes")
    listing.set_defaults(run=_list)
    remove = actions.add_parser("remove", help="remove a token")
    remove.add_argument("hash", help="the first digits of its hash, as listed")
    remove.set_defaults(run=_remove)


def _registry(options: argparse.Namespace) -> Any:
    given = {"data": options.data} if options.data else {}
    return open_registry(load_settings(overrides=given, file=options.config))


def _add(options: argparse.Namespace) -> int:
    token = security.new_token()
    with _registry(options) as registry:
        registry.add_token(
            TokenRecord(security.hash_token(token), options.role, options.label, time.time_ns() // 1_000_000)
        )
    print(token)
    return 0


def _list(options: argparse.Namespace) -> int:
    with _registry(options) as registry:
        for record in registry.list_tokens():
            print(f"{record.hash[:12]}  {record.role:5}  {record.label}")
    return 0


def _remove(options: argparse.Namespace) -> int:
    with _registry(options) as registry:
        found = [record for record in registry.list_tokens() if record.hash.startswith(options.hash)]
        if len(found) != 1:
            raise security.TokenRequiredError(
                f"{len(found)} tokens have a hash that begins with {options.hash}",
                code="unknown-token",
                hint="`quadrill token list` shows them.",
            )
        registry.remove_token(found[0].hash)
    return 0
