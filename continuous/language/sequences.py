"""Translation of SEQ blocks to windows that hold matches, with checks of the steps.

Each match is stored in its window as one blank node, with one triple for each variable that the match binds
(`quadrill.continuous.windows.sequence`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyoxigraph import NamedNode

from ..algebra import nodes as a
from ..algebra.build import all_nodes, expressions, has_exists, sub_expressions
from ..algebra.nodes import Algebra, Bgp, Expr, TriplePattern, Var
from ..algebra.query import MATCH, SequenceElement, SequencePattern, WindowDeclaration, WindowSpec
from ..algebra.variables import certain, expression_variables
from . import syntax as s
from .context import Context
from .windows import WINDOW_NAMESPACE, Windows, duration_ms

_VOLATILE = frozenset(("NOW", "RAND", "UUID", "STRUUID", "BNODE"))
_MOST_STEPS = 20
_MOST_REPEATS = 100


def step_of(
    context: Context,
    windows: Windows,
    step: s.SequenceStep,
    named: NamedNode,
    at: Var | None,
    pattern: Algebra,
    conditions: list[Expr],
) -> SequenceElement | None:
    """Translate one step of SEQ; None if the step's window is not declared, which is a fault."""
    stream: NamedNode | Var | None = named
    if step.of_window:
        windows.use(named, step.at)
        stream = next((each.stream for each in windows.declarations if each.name == named), None)
    if not isinstance(stream, NamedNode):
        return None
    own = certain(pattern)
    later: list[Expr] = []
    for condition in conditions:
        if expression_variables(condition) <= own:
            pattern = a.Filter(condition, pattern)
        else:
            later.append(condition)
    if any(has_exists(each) for each in later):
        context.missing("EXISTS over variables of an earlier step of SEQ", step.at, "Bind them in the step.")
    if any(isinstance(each, (a.Graph, a.Service)) for each in all_nodes(pattern)):
        context.missing("GRAPH or SERVICE in a step of SEQ", step.at, "Put it next to the SEQ block.")
    if any(_is_volatile(each) for each in (*later, *_expressions(pattern))):
        context.missing("NOW, RAND, UUID or BNODE in a step of SEQ", step.at, "Put it next to the SEQ block.")
    if step.negated and (at is not None or step.repeat is not None):
        context.fault("a NOT step binds nothing", step.at, "Leave AT and REPEAT out.")
    repeat = 1
    if step.repeat is not None:
        text = step.repeat.text
        repeat = int(text[:4]) if text.isdigit() else 0
        if not 1 <= repeat <= _MOST_REPEATS:
            context.fault(f"REPEAT must be from 1 to {_MOST_REPEATS}, it is {text[:12]}", step.repeat.at)
            repeat = 1
    return SequenceElement(stream, pattern, step.negated, repeat, at, tuple(later))


def sequence_block(
    context: Context,
    windows: Windows,
    block: s.SequenceBlock,
    steps: Iterable[SequenceElement | None],
    base: str | None,
) -> Algebra:
    """Declare the window of a SEQ block, and return the pattern that reads the matches from the window."""
    made = list(steps)
    known = [each for each in made if each is not None]
    _earlier_names(context, block, made)
    within = duration_ms(context, block.within, "WITHIN")
    if len(block.steps) > _MOST_STEPS:
        context.fault(
            f"SEQ has more than {_MOST_STEPS} steps", block.at, "Split it into two queries.", "limit"
        )
    if block.steps[0].negated:
        context.fault("SEQ begins with NOT", block.steps[0].at, "NOT stands between two steps or last.")
    if not known or known[0].negated:
        return Bgp()
    name = NamedNode(f"{WINDOW_NAMESPACE}{len(windows.declarations) + 1}")
    windows.add_used(
        list(_declarations(name, SequencePattern(tuple(known), within, block.skip, base))), block.at
    )
    match = context.hidden()
    always: frozenset[str] = frozenset()
    names: dict[str, None] = {}
    for step in known:
        if not step.negated:
            more = frozenset() if step.at is None else frozenset((step.at.name,))
            always |= certain(step.pattern) | more
            names |= dict.fromkeys(sorted(step.variables | more))
    triples = [TriplePattern(match, MATCH, MATCH)]
    triples += [triple_of(match, each) for each in names if each in always]
    pattern: Algebra = Bgp(tuple(triples))
    for each in names:
        if each not in always:
            pattern = a.LeftJoin(pattern, Bgp((triple_of(match, each),)))
    return a.Window(name, pattern)


def _earlier_names(context: Context, block: s.SequenceBlock, steps: list[SequenceElement | None]) -> None:
    """Check that BINDs and inner FILTERs of a SEQ step use no variable that only earlier steps bind."""
    earlier: frozenset[str] = frozenset()
    for written, step in zip(block.steps, steps, strict=True):
        if step is None:
            continue
        own = step.variables
        asked = frozenset[str]().union(*map(expression_variables, _expressions(step.pattern)))
        if (asked - own) & earlier:
            context.missing(
                "BIND, or a FILTER inside a group, over variables of an earlier step of SEQ",
                written.at,
                "Write the FILTER in the outermost group of the step, BIND behind the SEQ block.",
            )
        if not step.negated:
            earlier |= own if step.at is None else own | {step.at.name}


def _declarations(name: NamedNode, sequence: SequencePattern) -> Iterator[WindowDeclaration]:
    """Declare the window of SEQ's matches on the first stream; feeding windows for other streams."""
    first, *others = sequence.streams
    yield WindowDeclaration(name, first, WindowSpec("sequence", sequence=sequence))
    for place, stream in enumerate(others, 1):
        spec = WindowSpec("step", count=place, feeds=name)
        yield WindowDeclaration(NamedNode(f"{name.value}:{place}"), stream, spec)


def triple_of(match: Var, name: str) -> TriplePattern:
    """Return the triple pattern that reads one variable of a SEQ match."""
    return TriplePattern(match, NamedNode(f"{MATCH.value}:{name}"), Var(name))


def _expressions(pattern: Algebra) -> Iterator[Expr]:
    for node in all_nodes(pattern):
        yield from expressions(node)


def _is_volatile(expr: Expr) -> bool:
    return any(isinstance(each, a.Call) and each.name in _VOLATILE for each in sub_expressions(expr))
