// The SPARQL query for the triples from or to an IRI, which says of each inferred one whether it is asserted as well.

/** IRIs for SPARQL; graphs that blank nodes name have no such form. */
function iris(graphs) {
  return graphs.filter((graph) => graph !== "default" && !graph.startsWith("_:")).map((graph) => `<${graph}>`);
}

/**
 * The condition that an input graph of the rule set of `?graph` has the triple, as `/why` defines `asserted`.
 * `sets` are all rule sets, `owned` the graphs that the inputs of a set without `from` leave out, `triple` the pattern.
 */
function assertedCondition(triple, sets, owned) {
  const ofAll = iris(sets.filter(({ from }) => from === undefined).map(({ into }) => into));
  const named = sets.flatMap(({ from = [], into }) => iris(from).map((input) => `(<${into}> ${input})`));
  const ofDefault = iris(sets.filter(({ from }) => from?.includes("default")).map(({ into }) => into));
  return [
    ofAll.length === 0 ? null : `(?graph IN (${ofAll.join(", ")}) && (EXISTS { ${triple} } || EXISTS { GRAPH ?input { ${triple} } FILTER(?input NOT IN (${iris(owned).join(", ")})) }))`,
    named.length === 0 ? null : `EXISTS { VALUES (?graph ?input) { ${named.join(" ")} } GRAPH ?input { ${triple} } }`,
    ofDefault.length === 0 ? null : `(?graph IN (${ofDefault.join(", ")}) && EXISTS { ${triple} })`,
  ].filter(Boolean).join(" || ");
}

/**
 * The query for `?predicate`, `?other`, `?graph` (unbound in the default graph) and `?asserted` of the triples that match
 * `triple`, a pattern of the first two variables, `limit` of them from `offset` on.
 */
export function triplesQuery(triple, sets, owned, limit, offset) {
  const rows = `SELECT ?predicate ?other ?graph WHERE { { ${triple} } UNION { GRAPH ?graph { ${triple} } } } LIMIT ${limit} OFFSET ${offset}`;
  if (sets.length === 0) return rows;
  return `SELECT * WHERE { { ${rows} } BIND(${assertedCondition(triple, sets, owned)} AS ?asserted) }`;
}
