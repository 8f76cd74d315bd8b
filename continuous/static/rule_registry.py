"""The graphs that the rules of all queries' entailments read, advanced by each task of the engine."""

from __future__ import annotations

from ..durable.tasks import TaskQueue
from ..rules.definition import RuleSetDefinition
from .commit_watch import CommitWatch
from .rule_graphs import NamedRules, RuleGraphs
from .table import TableFrontier

_DELIVERED_S = 600.0
"""Maximum number of seconds that a registration waits for the tasks of commits that it has read."""


class RuleGraphsRegistry:
    """A registry of the graphs that rules read, one entry for each query that needs them.

    Threads that register queries call `read`, any thread calls `release` and `outdated`, and the engine's
    thread calls the other methods.
    """

    def __init__(self, commits: CommitWatch, task: TableFrontier, tasks: TaskQueue | None) -> None:
        """Create an empty registry.

        Args:
            commits: records the changes of commits.
            task: the newest version whose task the engine has executed.
            tasks: receives the journal records of replaced rule sets; None without an engine.
        """
        self._commits = commits
        self._task = task
        self._tasks = tasks

    def read(self, named: NamedRules) -> RuleGraphs:
        """Return the graphs that a rule set reads, whose changes are recorded from now on."""
        commits = self._commits
        commits.start()
        commits.release_dropped()
        graphs = commits.read_rule_graphs(named)
        # The task of the commit whose version was read must enter the task queue before the query's
        # registration task.
        commits.wait_delivered(_DELIVERED_S)
        return graphs

    def release(self, graphs: RuleGraphs) -> None:
        """Stop recording the changes of the graphs that a rule set reads, for one query."""
        with self._commits.order.lock:
            if graphs in self._commits.rules:
                self._commits.rules.remove(graphs)

    def advance(self) -> None:
        """Add steps to queries for the changes up to the version of the running task."""
        replaced: dict[tuple[str, int], RuleSetDefinition | None] = {}
        for graphs in list(self._commits.rules):
            before = graphs.newest_announced
            for change in graphs.advance(self._task.version):
                if change.definition != before:
                    replaced[graphs.name, change.version] = before = change.definition
        if self._tasks is not None:
            for (name, version), definition in replaced.items():
                # The journal records the rule set, because a replay cannot see that the commit replaced it.
                members = None if definition is None else definition.members()
                self._tasks.record_outcome("rules", set=name, version=version, definition=members)

    def redefine(self, name: str, version: int, definition: RuleSetDefinition | None) -> None:
        """Replace a rule set, whose graph has not changed, for the queries that name it.

        The engine has executed the tasks of all commits up to ``version``; later commits have the new rule
        set.
        """
        at_ms = 0 if self._tasks is None else self._tasks.at
        for graphs in list(self._commits.rules):
            if graphs.name == name:
                graphs.redefine(version, at_ms, definition)

    def outdated(self, name: str | None = None) -> dict[str, RuleSetDefinition | None]:
        """Return the newest definition of each rule set of which a query still has an older one.

        With ``name``, only the set with this name is checked.
        """
        known = [each for each in list(self._commits.rules) if name in (None, each.name)]
        present = {each.name: self._commits.definition_of(each.name) for each in known}
        return {each.name: present[each.name] for each in known if each.newest != present[each.name]}
