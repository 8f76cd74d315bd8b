// Names of operators and columns for people; EXPLAIN as a text has those of the engine.

const NAMES = { scan: "Pattern", star: "Patterns", table: "Stored rows", extend: "Compute", project: "Columns", closure: "Path" };

/** What an operator is called on the page. */
export function nameOf({ operator }) {
  return NAMES[operator] ?? operator.charAt(0).toUpperCase() + operator.slice(1);
}

/** The columns of an operator that the query names, as variables. */
export function columnsOf({ columns }) {
  return columns.filter((name) => !name.startsWith("_")).map((name) => `?${name}`);
}

/** A text of the plan in which columns without a name in the query are three dots. */
export function readable(text) {
  return text.replace(/\?_(?::\w+|\d+)/g, "…").replace(/ \(triples\)$/, "");
}
