"""``/settings`` and ``/tokens``: how the server is configured, and who may use it; secrets stay hidden."""

from __future__ import annotations

import re
from typing import Any

from ..config import SETTINGS
from ..connectors.declaration import HIDDEN
from ..http.answers import WholeAnswer, json_answer
from ..http.request import Request
from ..security import SHOWN_DIGITS
from ..setting_values import Setting
from ..wiring import Services

_PASSWORD = re.compile(r"(//[^/?#:@]*:)[^@]*(?=@)|([?&]\w*(?:password|secret|token)\w*=)[^&#]*", re.I)
"""Secrets in a URL, each after a group that stays: the password of a user, and the values of parameters."""


def get_settings(services: Services, request: Request) -> WholeAnswer:
    """Return each setting with value, default, unit, meaning, and the place where it was set."""
    request.arguments.check()
    settings = services.settings
    return json_answer(
        {
            "settings": [
                {
                    "name": row.name,
                    "value": shown_value(row, getattr(settings, row.name)),
                    "default": row.default,
                    "unit": row.unit,
                    "help": row.help,
                    "origin": settings.origins.get(row.name, "the default"),
                }
                for row in SETTINGS
            ]
        }
    )


def get_tokens(services: Services, request: Request) -> WholeAnswer:
    """Return role, label and creation time of each bearer token; of its hash only the first digits."""
    request.arguments.check()
    found = [
        {"hash": each.hash[:SHOWN_DIGITS], "role": each.role, "label": each.label, "created": each.created_ms}
        for each in services.registry.tokens.all()
    ]
    if services.settings.token:
        found.insert(0, {"hash": None, "role": "admin", "label": "the setting token", "created": None})
    return json_answer({"tokens": found})


def shown_value(row: Setting, value: Any) -> Any:
    """Return the value of a setting with ``***`` in the place of secrets."""
    if row.unit == "secret":
        return HIDDEN if value else value
    if row.unit != "URL":
        return value
    return _PASSWORD.sub(lambda found: (found[1] or found[2]) + HIDDEN, value)
