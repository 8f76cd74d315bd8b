"""Translation of expressions from syntax to algebra, with checks of arities and of aggregates' places."""

from __future__ import annotations

from collections.abc import Callable

from pyoxigraph import Literal, NamedNode, Triple

from ..algebra.build import fold
from ..algebra.nodes import Aggregate, Algebra, Call, Constant, Exists, Expr, FunctionCall, Var
from ..algebra.regex_text import BACK_REFERENCE, has_back_reference
from ..algebra.scalar_functions import EXTENSION_FUNCTIONS
from ..algebra.set_functions import AGGREGATE_NAMESPACE, FUNCTIONS, PERCENTILE_IRI, STATISTICAL
from . import syntax as s
from .context import Context
from .terms import Terms
from .triples import TripleTranslator

AGGREGATE_IRIS = {AGGREGATE_NAMESPACE + name.lower(): name for name in STATISTICAL}
TIMESTAMP_IRI = "http://larkc.eu/csparql/sparql/jena/ext#timestamp"

_ZERO = ("RAND", "NOW", "UUID", "STRUUID")
_TWO = (
    "LANGMATCHES", "CONTAINS", "STRSTARTS", "STRENDS", "STRBEFORE", "STRAFTER", "STRLANG", "STRDT",
    "SAMETERM",
)  # fmt: skip
ARITY: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(_ZERO, (0, 0)),
    **dict.fromkeys(_TWO, (2, 2)),
    "BNODE": (0, 1),
    "IF": (3, 3),
    "STRLANGDIR": (3, 3),
    "TRIPLE": (3, 3),
    "ADJUST": (1, 2),
    "SUBSTR": (2, 3),
    "REGEX": (2, 3),
    "REPLACE": (3, 4),
    "CONCAT": (0, None),
    "COALESCE": (0, None),
}
SYNONYMS = {"URI": "IRI", "ISURI": "ISIRI"}


class Aggregates:
    """Collector of the aggregates of one SELECT (SPARQL 1.1, 18.2.4.1); equal aggregates share a variable."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.found: dict[Aggregate, Var] = {}

    def variable(self, aggregate: Aggregate) -> Var:
        """Return the hidden variable that holds the value of an aggregate."""
        known = self.found.get(aggregate)
        if known is None:
            known = self.found[aggregate] = self._context.hidden()
        return known


class ExpressionTranslator:
    """Translator of expressions; callers pass an `Aggregates` collector where aggregates are allowed."""

    def __init__(
        self,
        context: Context,
        terms: Terms,
        triples: TripleTranslator,
        pattern: Callable[[s.GroupPattern], Algebra],
    ) -> None:
        self.context = context
        self.terms = terms
        self.triples = triples
        self._pattern = pattern

    def translate(
        self,
        node: s.Expression,
        aggregates: Aggregates | None = None,
        *,
        aliases: dict[str, s.Expression] | None = None,
        place: str = "FILTER and BIND",
    ) -> Expr:
        """Translate an expression from syntax to algebra.

        The argument ``aggregates`` collects set functions; if it is None, a set function is a fault, and the
        message names its ``place``. ``aliases`` are SELECT aliases that are replaced by their expressions, an
        extension of SPARQL.
        """
        match node:
            case s.Variable(name):
                if aliases and name in aliases:
                    self.context.named_aliases[name] = None
                    rest = {alias: value for alias, value in aliases.items() if alias != name}
                    return self.translate(aliases[name], aggregates, aliases=rest, place=place)
                return self.triples.variable(node)
            case s.IriReference() | s.PrefixedName() | s.AKeyword():
                return Constant(self.terms.iri(node))
            case s.LiteralText() | s.Number() | s.Boolean():
                return Constant(self.terms.literal(node))
            case s.TripleTermText():
                return self._triple_term(node)
            case s.ExistsText(group, negated):
                assert isinstance(group, s.GroupPattern)
                return Exists(self._pattern(group), negated)
            case s.AggregateCall():
                return self._set_function(node, aggregates, aliases, place)
            case s.Operation():
                return self._operation(node, aggregates, aliases, place)
            case s.FunctionCallText():
                return self._function_call(node, aggregates, aliases, place)

    def _operation(
        self,
        node: s.Operation,
        aggregates: Aggregates | None,
        aliases: dict[str, s.Expression] | None,
        place: str,
    ) -> Expr:
        if node.depth > self.context.limits.operators:
            limit = self.context.limits.operators
            self.context.fault(
                f"the expression nests {node.depth} operators, at most {limit} are allowed",
                node.at,
                None,
                "limit",
            )
            return Constant(Literal("false"))
        args = [self.translate(arg, aggregates, aliases=aliases, place=place) for arg in node.args]
        name = SYNONYMS.get(node.name, node.name)
        if node.operator:
            if name in ("&&", "||"):
                return fold(lambda left, right: Call(name, (left, right)), args)
            return Call(name, tuple(args))
        self._check_arity(name, len(args), node.at)
        if name == "BOUND" and not isinstance(node.args[0], s.Variable):
            self.context.fault("BOUND takes a variable", node.at, "Write BOUND(?x).")
        if name == "TIMESTAMP" and not (len(node.args) == 1 and isinstance(node.args[0], s.Variable)):
            self.context.fault("timestamp() takes one variable", node.at, "Write timestamp(?x).")
        if name in ("REGEX", "REPLACE"):
            self._check_regular_expression(args[1:2], args[2 if name == "REGEX" else 3 :], node.at)
        return Call(name, tuple(args))

    def _check_regular_expression(self, pattern: list[Expr], flags: list[Expr], at: int) -> None:
        """Record a back-reference in a constant regular expression as unsupported."""
        texts = [
            each.term.value
            for each in (*pattern, *flags)
            if isinstance(each, Constant) and isinstance(each.term, Literal)
        ]
        if len(texts) == 1 + len(flags) and has_back_reference(*texts):
            self.context.missing(
                BACK_REFERENCE, at, "Write the alternatives out, or compare parts by SUBSTR."
            )

    def _check_arity(self, name: str, given: int, at: int) -> None:
        least, most = ARITY.get(name, (1, 1))
        if given < least or (most is not None and given > most):
            wanted = f"{least}" if least == most else f"{least} or {most}"
            noun = "argument" if wanted == "1" else "arguments"
            self.context.fault(f"{name} takes {wanted} {noun}, {given} given", at)

    def _function_call(
        self,
        node: s.FunctionCallText,
        aggregates: Aggregates | None,
        aliases: dict[str, s.Expression] | None,
        place: str,
    ) -> Expr:
        iri = self.terms.iri(node.iri)
        found = PERCENTILE_IRI.fullmatch(iri.value)
        if found is not None and len(node.args) == 1:
            asked = s.Number(found[1], node.at)
            call = s.AggregateCall(
                "PERCENTILE", node.args[0], node.distinct, None, asked, node.at, node.depth
            )
            return self._set_function(call, aggregates, aliases, place)
        if iri.value in AGGREGATE_IRIS:
            argument = node.args[0] if node.args else None
            name = AGGREGATE_IRIS[iri.value]
            wanted = 2 if name == "PERCENTILE" else 1
            if len(node.args) != wanted or argument is None:
                self.context.fault(f"{name} takes {wanted} arguments, {len(node.args)} given", node.at)
                return Constant(iri)
            parameter = node.args[1] if wanted == 2 else None
            call = s.AggregateCall(name, argument, node.distinct, None, parameter, node.at, node.depth)
            return self._set_function(call, aggregates, aliases, place)
        if str(iri) in FUNCTIONS:
            if len(node.args) != 1:
                self.context.fault(f"{iri} takes 1 argument, {len(node.args)} given", node.at)
                return Constant(iri)
            call = s.AggregateCall(str(iri), node.args[0], node.distinct, None, None, node.at, node.depth)
            return self._set_function(call, aggregates, aliases, place)
        if node.distinct:
            self.context.fault(f"DISTINCT belongs to aggregates, <{iri.value}> is not one", node.at)
        args = tuple(self.translate(arg, aggregates, aliases=aliases, place=place) for arg in node.args)
        if iri.value == TIMESTAMP_IRI and self.context.dialect == "csparql":
            if not (len(node.args) == 1 and isinstance(node.args[0], s.Variable)):
                self.context.fault(
                    "timestamp() takes one variable",
                    node.at,
                    "Write timestamp(?x) for a variable of the triple.",
                )
            return Call("TIMESTAMP", args)
        self._check_outside(iri, len(args), node.at)
        return FunctionCall(iri, args)

    def _check_outside(self, iri: NamedNode, given: int, at: int) -> None:
        """Add a fault if a function of an extension has a wrong number of arguments."""
        function = EXTENSION_FUNCTIONS.get(iri)
        if function is not None and given not in function.arities:
            wanted = " or ".join(map(str, function.arities))
            noun = "argument" if wanted == "1" else "arguments"
            self.context.fault(f"{iri} takes {wanted} {noun}, {given} given", at)

    def _set_function(
        self,
        node: s.AggregateCall,
        aggregates: Aggregates | None,
        aliases: dict[str, s.Expression] | None,
        place: str,
    ) -> Expr:
        if aggregates is None:
            self.context.fault(
                f"the aggregate {node.name} cannot stand in {place}",
                node.at,
                "Aggregates belong to SELECT, HAVING and ORDER BY; use a sub-query elsewhere.",
                of_scope=True,
            )
            return Constant(Literal(""))
        inside = f"the argument of {node.name}"
        argument = None
        if node.argument is not None:
            argument = self.translate(node.argument, None, aliases=aliases, place=inside)
        parameter = None
        if node.parameter is not None:
            parameter = self.translate(node.parameter, None, place=inside)
            self._check_percentile(parameter, node.at)
        separator = None if node.separator is None else self.terms.string(node.separator)
        return aggregates.variable(Aggregate(node.name, argument, node.distinct, separator, parameter))

    def _check_percentile(self, parameter: Expr, at: int) -> None:
        value = (
            parameter.term.value
            if isinstance(parameter, Constant) and isinstance(parameter.term, Literal)
            else ""
        )
        try:
            right = 0 <= float(value) <= 100
        except ValueError:
            right = False
        if not right:
            self.context.fault(
                "PERCENTILE takes a constant from 0 to 100 as its second argument",
                at,
                "Write PERCENTILE(?x, 95).",
            )

    def _triple_term(self, node: s.TripleTermText) -> Expr:
        parts = (node.subject, node.verb, node.object)
        if any(isinstance(part, (s.Blank, s.Reified)) for part in parts):
            self.context.fault(
                "an expression cannot hold blank nodes or << >>; only <<( )>> with terms", node.at
            )
            return Constant(Literal(""))
        subject, verb, obj = (self.translate(part) for part in parts)  # type: ignore[arg-type]
        if isinstance(node.subject, (s.LiteralText, s.Number, s.Boolean, s.TripleTermText)):
            self.context.fault("the subject of a triple term must be an IRI or a variable", node.at)
            return Constant(Literal(""))
        if isinstance(subject, Constant) and isinstance(verb, Constant) and isinstance(obj, Constant):
            s_term, p_term, o_term = subject.term, verb.term, obj.term
            if isinstance(s_term, NamedNode) and isinstance(p_term, NamedNode):
                return Constant(Triple(s_term, p_term, o_term))
        return Call("TRIPLE", (subject, verb, obj))


def variables(expr: Expr) -> dict[Var, None]:
    """Return the variables of an expression, without variables that occur only inside EXISTS."""
    match expr:
        case Var():
            return {expr: None}
        case Call(_, args) | FunctionCall(_, args):
            found: dict[Var, None] = {}
            for arg in args:
                found.update(variables(arg))
            return found
        case _:
            return {}
