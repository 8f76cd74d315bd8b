// Where a rule set is: in the HTTP interface, and on this page.

/** The path of a rule set in the interface. */
export function rulesPath(name) {
  return `/rules/${encodeURIComponent(name)}`;
}

/** The page of one rule set. */
export function rulesView(name) {
  return `/ui/rules/${encodeURIComponent(name)}`;
}

/** The page that says why a quad, a line of N-Quads, is in the store. */
export function whyView(line) {
  return `/ui/why?${new URLSearchParams({ quad: line })}`;
}
