"""The inconsistencies of a rule set in the store: matches of OWL 2 RL rules that conclude ``false``."""

from __future__ import annotations

from typing import Any

from quadrill.store.changes.pending import StoreView
from quadrill.store.quads.quad_store import QuadStore

from ..rules.rule_set import RuleSet

_MOST = 100
"""Maximum number of inconsistencies in one description of a rule set."""
_ATTEMPTS = 3
"""Number of searches without a snapshot, which delays commits; a commit makes a running search useless."""


def inconsistencies(store: QuadStore, rule_set: RuleSet | None) -> list[dict[str, Any]]:
    """Return up to 100 inconsistencies as JSON members: the rule's name and the matched quads.

    A set without the built-in rules ``owl2-rl``, and a suspended set, has none.
    """
    if rule_set is None or rule_set.suspended or "owl2-rl" not in rule_set.definition.include:
        return []
    owned = store.queue.owned
    for _ in range(_ATTEMPTS):
        version = store.reader.version
        found = rule_set.inconsistencies(StoreView(store.committer.store, owned), _MOST)
        if store.reader.version == version:
            break
    else:
        with store.reader.snapshot_read() as snapshot:
            found = rule_set.inconsistencies(StoreView(snapshot.database(), owned), _MOST)
    return [{"rule": rule, "premises": [f"{quad} ." for quad in quads]} for rule, quads in found]
