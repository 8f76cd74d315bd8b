"""Why a quad is in the store: whether it is asserted, and how rules derive it, as JSON members."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyoxigraph import Quad, Store

from quadrill.store.changes.pending import StoreView
from quadrill.store.errors import NotFoundError
from quadrill.store.quads.quad_store import QuadStore

from ..rules.rule_set import RuleSet
from ..why.limits import Deadline

_MOST_MS = 10_000
"""Maximum time of one search in milliseconds."""
_MOST_DELAY_MS = 200
"""Maximum time in milliseconds for which a search delays commits."""


def why_of(store: QuadStore, sets: Iterable[RuleSet], quad: Quad) -> dict[str, Any]:
    """Return why a quad is in the store: the version, whether the quad is asserted, and derivations.

    Commits wait for the search only if they are so frequent that each attempt without a lock reads more than
    one version; then for at most `_MOST_DELAY_MS`.

    Raises:
        NotFoundError: the store does not have the quad.
        LimitError: the search takes too long; code ``query-timeout``.
    """
    rule_set = next((each for each in sets if each.into == quad.graph_name), None)

    def search(database: Store, deadline: Deadline) -> dict[str, Any] | None:
        view = StoreView(database, store.queue.owned)
        if not view.contains(quad):
            return None
        if rule_set is None:
            return {"asserted": True, "derivations": []}
        asserted, found = rule_set.why(view, quad, deadline.check)
        premises = [(each.rule, [f"{premise} ." for premise in each.premises]) for each in found]
        derivations = [{"set": rule_set.name, "rule": rule, "premises": lines} for rule, lines in premises]
        return {"asserted": asserted, "derivations": derivations}

    deadline = Deadline(_MOST_MS)
    result = store.reader.read_at_once(lambda database: search(database, deadline))
    if result is None:
        with store.reader.snapshot_read() as snapshot:
            result = search(snapshot.database(), Deadline(_MOST_DELAY_MS)), snapshot.version
    found, version = result
    if found is None:
        raise NotFoundError(f"the store does not have the quad {quad}", code="unknown-quad")
    return {"version": version, **found}
