"""The content of a window with its consequences, updated when the window or the graphs change.

    content C  =  triples of the elements W  ∪  inferred triples
    facts      =  C  ∪  graphs of the rule set D

C is the least set that contains W and the head of each solution over C ∪ D that uses a triple of C. A change
of W or of D changes C by delete and rederive (`fixpoint`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable

from ..rows import Delta, add
from .content_rules import ContentProgram
from .facts import Fact, Facts, MemoryFacts, Pattern, Row
from .fixpoint import InputChange, update
from .single_facts import instances

Check = Callable[[int, int], None]
"""Called regularly during a change, raises an error to give up.

The arguments are the number of inferred triples of the window, and the steps of the change so far.
"""
_READS = 1_024
"""Number of reads of facts, or of derived triples, between two calls of a `Check`."""


class _ContentFacts:
    """Facts of a content and of the graphs; see `facts.Facts`.

    ``content`` returns the triples of the content that match a pattern.
    """

    def __init__(
        self,
        content: Callable[[Pattern, Pattern, Pattern], Collection[Fact]],
        name: int,
        graphs: Facts,
        count: Callable[[], None],
    ) -> None:
        self._content = content
        self._name = name
        self._graphs = graphs
        self._count = count

    def match(self, s: Pattern, p: Pattern, o: Pattern) -> Collection[Fact]:
        self._count()
        found, behind = self._content(s, p, o), self._graphs.match(s, p, o)
        if not behind or not found:
            return found or behind
        return dict.fromkeys((*found, *behind))

    def match_in(self, graph: Pattern, s: Pattern, p: Pattern, o: Pattern) -> Collection[tuple[int, Fact]]:
        self._count()
        if graph == self._name:
            return [(graph, fact) for fact in self._content(s, p, o)]
        return self._graphs.match_in(graph, s, p, o)

    def graph_names(self) -> Collection[int]:
        return self._graphs.graph_names()

    def count(self, p: Pattern) -> int:
        return self._graphs.count(p)

    def kept(
        self, predicates: frozenset[int], key: Hashable, find: Callable[[], Iterable[Row]]
    ) -> Iterable[Row]:
        return find()


class WindowContent:
    """The triples of one window and their consequences.

    Attributes:
        program: the compiled rules.
        own: the triples of the window's elements.
        inferred: the triples that rules derive, which may be among ``own``. While each consequence follows
            from a single triple, the value is the number of triples in ``own`` from which it follows.
    """

    def __init__(self, program: ContentProgram, check: Check) -> None:
        """Create an empty content; ``check`` bounds the work of each change."""
        self.own: dict[Fact, None] = {}
        self.inferred: dict[Fact, int] = {}
        self.program = program
        self._check = check
        # The facts of the content; None while each consequence follows from a single triple.
        self._content: MemoryFacts | None = MemoryFacts() if program.single is None else None

    def consequences(self) -> list[Fact]:
        """Return the inferred triples that no element of the window has."""
        return [fact for fact in self.inferred if fact not in self.own]

    def referenced_rows(self) -> Iterable[Fact]:
        """Return the triples of the content, whose term ids a sweep must not delete."""
        return (*self.own, *self.inferred)

    def change(self, added: Collection[Fact], removed: Collection[Fact], graphs: Facts) -> Delta:
        """Change the triples of the window; return the delta of the content.

        Args:
            added: triples that enter the window and were not in it.
            removed: triples that leave the window.
            graphs: the facts of the graphs.
        """
        content = self._content
        if content is None:
            entering = self._of_single_facts(added, graphs)
            leaving = None if entering is None else self._of_single_facts(removed, graphs)
            if entering is not None and leaving is not None:
                return self._count(entering, leaving)
        if content is None or len(removed) > len(self.own) // 2:
            # All consequences are derived again: a triple of the schema enters, or most of the content
            # leaves.
            kept = self.own.copy()
            for fact in removed:
                del kept[fact]
            kept.update(dict.fromkeys(added))
            return self.replace(self.program, kept, graphs)
        run = _ContentChange(self, content, graphs, graphs)
        change = InputChange()
        for fact in added:
            self.own[fact] = None
            if run.enter(fact):
                change.added.append(fact)
        for fact in removed:
            del self.own[fact]
            change.removed.append(fact)
            if fact not in self.inferred:
                run.leave(fact)
        return run.update(change)

    def change_graphs(self, change: InputChange, before: Facts, now: Facts) -> Delta:
        """Update the consequences after a change of the graphs; return the delta of the content.

        The caller must call `SingleFacts.changed` before, once for all windows of the program.

        Args:
            change: the facts and the quads of named graphs that the graphs gained or lost.
            before: the facts of the graphs before the change.
            now: the facts of the graphs after the change.
        """
        single = self.program.single
        if not self.own:
            return {}
        if self._content is not None:
            return _ContentChange(self, self._content, before, now).update(change)
        if single is None or all(fact[1] not in single.schema for fact in change.background):
            return {}
        return self.replace(self.program, self.own, now)

    def replace(self, program: ContentProgram, own: Iterable[Fact], graphs: Facts) -> Delta:
        """Derive all consequences again; return the delta of the content.

        Args:
            program: the new rules.
            own: the new triples of the window.
            graphs: the facts of the graphs.
        """
        before = {**self.own, **self.inferred}
        self.program = program
        self.own, self.inferred = dict.fromkeys(own), {}
        self._content = None
        single = self._of_single_facts(self.own, graphs) if program.single is not None else None
        if single is not None:
            self._count(single, {})
        else:
            content = self._content = MemoryFacts()
            run, change = _ContentChange(self, content, graphs, graphs), InputChange()
            change.added += [fact for fact in self.own if run.enter(fact)]
            run.update(change)
        now = {**self.own, **self.inferred}
        delta: Delta = {fact: -1 for fact in before if fact not in now}
        delta.update((fact, 1) for fact in now if fact not in before)
        return delta

    # --- rules that never join two triples of the content -----------------------------------------

    def _of_single_facts(self, facts: Iterable[Fact], graphs: Facts) -> dict[Fact, list[Fact]] | None:
        """Return the consequences of each fact; None if they may need further facts of the content."""
        single = self.program.single
        assert single is not None

        def check(number: int) -> None:
            self._check(len(self.inferred) + number, number)

        found: dict[Fact, list[Fact]] = {}
        for fact in facts:
            templates = single.templates(fact, graphs, check)
            if templates is None:
                return None
            found[fact] = instances(templates, fact)
        return found

    def _count(self, entering: dict[Fact, list[Fact]], leaving: dict[Fact, list[Fact]]) -> Delta:
        """Add and remove triples with their consequences; return the delta of the content."""
        own, inferred = self.own, self.inferred
        delta: Delta = {}
        for fact, consequences in entering.items():
            if fact not in own and fact not in inferred:
                delta[fact] = 1
            own[fact] = None
            for each in consequences:
                number = inferred.get(each, 0)
                inferred[each] = number + 1
                if not number and each not in own:
                    add(delta, each, 1)
        for fact, consequences in leaving.items():
            for each in consequences:
                number = inferred[each] - 1
                if number:
                    inferred[each] = number
                else:
                    del inferred[each]
                    if each not in own:
                        add(delta, each, -1)
            del own[fact]
            if fact not in inferred:
                add(delta, fact, -1)
        self._check(len(inferred), len(entering) + len(leaving))
        return delta


class _ContentChange:
    """One change of a content; see `fixpoint.Inferred`."""

    def __init__(self, window: WindowContent, content: MemoryFacts, before: Facts, now: Facts) -> None:
        self._window = window
        self._own, self._inferred, self._content = window.own, window.inferred, content
        self._gained: dict[Fact, None] = {}
        self._lost = MemoryFacts()
        self._steps = 0
        name = window.program.content
        self.before = _ContentFacts(self._match_before, name, before, self._count)
        self.now = _ContentFacts(self._content.match, name, now, self._count)
        self.given = _ContentFacts(self._match_own, name, now, self._count)

    def update(self, change: InputChange) -> Delta:
        """Bring the inferred triples up to date; return the delta of the content."""
        if change:
            update(self._window.program, self, change, self.check)
            self.check()
        return {**dict.fromkeys(self._lost, -1), **dict.fromkeys(self._gained, 1)}

    def check(self) -> None:
        """Raise an error if the change exceeds a limit."""
        self._window._check(len(self._inferred), self._steps)

    def _count(self) -> None:
        self._steps += 1
        if self._steps % _READS == 0:
            self.check()

    def _match_before(self, s: Pattern, p: Pattern, o: Pattern) -> Collection[Fact]:
        found = self._content.match(s, p, o)
        if self._gained and found:
            found = [fact for fact in found if fact not in self._gained]
        return [*found, *self._lost.match(s, p, o)] if len(self._lost) else found

    def _match_own(self, s: Pattern, p: Pattern, o: Pattern) -> Collection[Fact]:
        own = self._own
        return [fact for fact in self._content.match(s, p, o) if fact in own]

    # --- the content ----------------------------------------------------------------------------

    def enter(self, fact: Fact) -> bool:
        """Add a triple to the content; return False if it is there already."""
        if not self._content.add(fact):
            return False
        if fact in self._lost:
            self._lost.remove(fact)
        else:
            self._gained[fact] = None
        return True

    def leave(self, fact: Fact) -> None:
        """Remove a triple from the content."""
        self._content.remove(fact)
        if fact in self._gained:
            del self._gained[fact]
        else:
            self._lost.add(fact)

    def asserted(self, fact: Fact) -> bool:
        """Return True if an element of the window has the triple."""
        return fact in self._own

    def known(self, fact: Fact) -> bool:
        """Return True if the triple is in the content after all changes so far."""
        return fact in self._content

    def inferred(self, fact: Fact) -> bool:
        """Return True if the triple is inferred after all changes so far."""
        self._count()
        return fact in self._inferred

    def infer(self, fact: Fact) -> None:
        """Add an inferred triple."""
        self._inferred[fact] = 1
        self.enter(fact)

    def retract(self, fact: Fact) -> None:
        """Remove an inferred triple; it stays in the content if an element of the window has it."""
        del self._inferred[fact]
        if fact not in self._own:
            self.leave(fact)
