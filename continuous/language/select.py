"""Translation of grouping, HAVING, SELECT expressions, ORDER BY and projection (SPARQL 1.1, 18.2.4-5)."""

from __future__ import annotations

from collections.abc import Callable

from ..algebra import nodes as a
from ..algebra.nodes import Algebra, Expr, OrderCondition, Var
from ..algebra.variables import Scopes
from . import syntax as s
from .context import Context
from .expressions import Aggregates, ExpressionTranslator, variables
from .triples import TripleTranslator


class SelectTranslator:
    """Translator that wraps a pattern in the algebra of its query's or sub-query's solution modifiers."""

    def __init__(
        self,
        context: Context,
        scopes: Scopes,
        expressions: ExpressionTranslator,
        triples: TripleTranslator,
        values: Callable[[s.ValuesBlock], a.Values],
    ) -> None:
        self.context = context
        self.scopes = scopes
        self.expressions = expressions
        self.triples = triples
        self._values = values

    def sub_select(self, node: s.SubSelect, where: Algebra) -> Algebra:
        """Translate a sub-query; only projected variables are in scope outside of it."""
        return self.modified(where, node.modifiers, node.values, node.select)

    def modified(
        self,
        where: Algebra,
        modifiers: s.Modifiers,
        values: s.ValuesBlock | None,
        select: s.SelectClause | None,
    ) -> Algebra:
        """Return the algebra of a pattern with its modifiers; without ``select`` it has no projection."""
        return _Modification(self, where, modifiers, select).build(
            None if values is None else self._values(values)
        )


class _Modification:
    """Translation of one query's solution modifiers, in the order of SPARQL 1.1, section 18.2.4."""

    def __init__(
        self, parent: SelectTranslator, where: Algebra, modifiers: s.Modifiers, select: s.SelectClause | None
    ) -> None:
        self.context = parent.context
        self.scopes = parent.scopes
        self.expressions = parent.expressions
        self.triples = parent.triples
        self.modifiers = modifiers
        self.select = select
        self.items = () if select is None or select.items is None else select.items
        self.node = self.where = where
        self.aggregates = Aggregates(self.context)
        self.keys: list[Var] = []
        self.aliases = self._find_aliases()
        self.alias_keys: set[str] = set()

    def _find_aliases(self) -> dict[str, s.Expression]:
        """Return the SELECT aliases that HAVING may use; in CQELS-QL, GROUP BY may use them, too."""
        scope = self.scopes.of(self.node)
        return {
            item.variable.name: item.expression
            for item in self.items
            if item.expression is not None and Var(item.variable.name) not in scope
        }

    def build(self, values: a.Values | None) -> Algebra:
        """Build the algebra of the query with all its solution modifiers."""
        self._group_keys()
        items = [self._item(item) for item in self.items]
        having_aliases = {name: value for name, value in self.aliases.items() if name not in self.alias_keys}
        having = [
            self.expressions.translate(condition, self.aggregates, aliases=having_aliases)
            for condition in self.modifiers.having
        ]
        order = [
            OrderCondition(self.expressions.translate(key.expression, self.aggregates), key.descending)
            for key in self.modifiers.order_by
        ]
        grouped = bool(self.modifiers.group_by or self.modifiers.having or self.aggregates.found)
        if grouped:
            self._group(items, having, order)
        if values is not None:
            self.node = values if self.node == a.Bgp() else a.Join(self.node, values)
        columns = self._extend(items)
        if order:
            self.node = a.OrderBy(self.node, tuple(order))
        return self._finish(columns)

    # --- grouping

    def _group_keys(self) -> None:
        alone: set[Var] = set()
        for key in self.modifiers.group_by:
            expression, variable = key.expression, key.variable
            if isinstance(expression, s.Variable) and variable is None:
                self._variable_key(expression)
                alone.add(self.keys[-1])
                continue
            translated = self.expressions.translate(expression, None, place="GROUP BY")
            if variable is None:
                self._extend_key(translated, self.context.hidden())
                continue
            var = self.triples.variable(variable)
            if var in alone or var in self.scopes.of(self.node):
                self.context.fault(
                    f"GROUP BY cannot set ?{var.name}: the pattern uses it already",
                    variable.at,
                    "Choose another name.",
                    of_scope=True,
                )
            self._extend_key(translated, var)

    def _variable_key(self, node: s.Variable) -> None:
        var = self.triples.variable(node)
        if node.name not in self.aliases or self.context.dialect != "cqels":
            self.keys.append(var)
            return
        # In CQELS-QL, GROUP BY ?alias means GROUP BY (expression AS ?alias).
        others = {
            name: value for name, value in self.aliases.items() if name not in self.alias_keys | {node.name}
        }
        translated = self.expressions.translate(
            self.aliases[node.name], None, aliases=others, place="an expression that GROUP BY names"
        )
        self.alias_keys.add(node.name)
        self._extend_key(translated, var)

    def _extend_key(self, expr: Expr, var: Var) -> None:
        self.node = a.Extend(self.node, var, expr)
        self.keys.append(var)

    def _group(
        self,
        items: list[tuple[s.SelectItem, Var, Expr | None]],
        having: list[Expr],
        order: list[OrderCondition],
    ) -> None:
        if self.select is not None and self.select.items is None:
            self.context.fault(
                "SELECT * cannot stand with GROUP BY or aggregates",
                self.select.at,
                "List the grouped variables.",
            )
        aggregated = tuple((var, aggregate) for aggregate, var in self.aggregates.found.items())
        available = {*self.keys, *(var for var, _ in aggregated)}
        known = set(available)
        for item, var, expr in items:
            used = {var: None} if expr is None else variables(expr)
            self._check_grouped(used, known, item.variable.at if expr is None else _at(item))
            known.add(var)
        for condition, text in zip(having, self.modifiers.having, strict=True):
            self._check_grouped(variables(condition), available, text.at)
        for key, text_key in zip(order, self.modifiers.order_by, strict=True):
            self._check_grouped(variables(key.expr), known, text_key.expression.at)
        self.node = a.Group(self.node, tuple(dict.fromkeys(self.keys)), aggregated)
        for condition in having:
            self.node = a.Filter(condition, self.node)

    def _check_grouped(self, used: dict[Var, None], known: set[Var], at: int) -> None:
        for var in used:
            if var not in known and not var.hidden:
                self.context.fault(
                    f"?{var.name} is neither grouped nor aggregated",
                    at,
                    f"Add ?{var.name} to GROUP BY, or write SAMPLE(?{var.name}).",
                )

    # --- SELECT expressions

    def _item(self, item: s.SelectItem) -> tuple[s.SelectItem, Var, Expr | None]:
        var = self.triples.variable(item.variable)
        if item.expression is None or item.variable.name in self.alias_keys:
            return item, var, None
        return item, var, self.expressions.translate(item.expression, self.aggregates)

    def _extend(self, items: list[tuple[s.SelectItem, Var, Expr | None]]) -> list[Var]:
        if self.select is not None and self.select.items is None:
            return self.scopes.visible(self.node)
        columns: dict[Var, None] = {}
        for item, var, expr in items:
            if expr is not None:
                # In a query with GROUP BY, only the keys are in scope after the grouping. In a query without
                # GROUP BY, all names of the pattern are in scope, even with aggregates
                # (https://www.w3.org/TR/sparql11-query/#sparqlSelectExpressions).
                pattern = self.node if self.modifiers.group_by else self.where
                if var in columns or var in self.scopes.of(self.node) or var in self.scopes.of(pattern):
                    self.context.fault(
                        f"SELECT cannot set ?{var.name}: it is already used",
                        item.variable.at,
                        "Choose another name.",
                        of_scope=True,
                    )
                self.node = a.Extend(self.node, var, expr)
            columns[var] = None
        return list(columns)

    def _finish(self, columns: list[Var]) -> Algebra:
        node = self.node
        if self.select is not None:
            node = a.Project(node, tuple(columns))
            # REDUCED may keep any number of duplicates (SPARQL 1.1, section 15.3); this server keeps none.
            if self.select.mode is not None:
                node = a.Distinct(node)
        limit, offset = (
            self._whole(self.modifiers.limit, "LIMIT"),
            self._whole(self.modifiers.offset, "OFFSET"),
        )
        if limit is not None or offset:
            node = a.Slice(node, offset or 0, limit)
        return node

    def _whole(self, number: s.Number | None, what: str) -> int | None:
        if number is None:
            return None
        if not number.text.isdigit() or len(number.text) > 18:
            self.context.fault(f"{what} takes a whole number, not {number.text}", number.at)
            return None
        return int(number.text)


def _at(item: s.SelectItem) -> int:
    return item.variable.at if item.expression is None else item.expression.at
