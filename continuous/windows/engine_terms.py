"""The dictionary of terms and the caches over it, one of each for all queries of an engine."""

from __future__ import annotations

import threading

from quadrill.store.dictionary import TermDictionary

from ..expressions.values import OrderKeys, ValueTable
from .encoded import ElementCoder


class EngineTerms:
    """The dictionary and the caches over it that all native queries of an engine share."""

    def __init__(self) -> None:
        self.dictionary = TermDictionary()
        self.values = ValueTable(self.dictionary)
        self.keys = OrderKeys(self.dictionary)
        self.coder = ElementCoder(self.dictionary)
        self.dictionary.hold(self.coder.held)
        # Held while a query is planned: its ids have no holder yet.
        self.planning = threading.Lock()

    def tidy(self) -> None:
        """A slice of forgetting terms that nothing holds, when it is due; called between transactions."""
        if self.planning.acquire(blocking=False):
            try:
                if not self.dictionary.sweeping:
                    # From here on ids must be asked for to be marked.
                    self.coder.renew()
                self.dictionary.sweep_slice()
            finally:
                self.planning.release()
