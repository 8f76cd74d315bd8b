// What came in the last hour of event time, by the demo's feeds: values that the picture is drawn from.

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** Rows with their event time, those of the last `spanMs` only; a replay that begins anew begins empty. */
export class Recent {
  constructor(spanMs = HOUR_MS) {
    this.spanMs = spanMs;
    this.rows = [];
    this.at = null;
  }

  /** Take a row; event time never goes back but when the server was set up anew. */
  add(at, row) {
    if (this.at !== null && at < this.at - DAY_MS) this.rows = [];
    this.at = at;
    this.rows.push({ at, ...row });
  }

  /** The rows of the span that ends at `now`. */
  until(now) {
    const first = this.rows.findIndex(({ at }) => at > now - this.spanMs);
    this.rows = first < 0 ? [] : this.rows.slice(first);
    return this.rows;
  }
}

/** The values of the rows of a SPARQL result as plain text, by variable. */
export function plainRows(data) {
  return (data.results?.bindings ?? []).map((row) =>
    Object.fromEntries(Object.entries(row).map(([name, term]) => [name, term.value])));
}

/** Rows counted by a key: a Map from the key to {many, first, sum of `number(row)`}. */
export function byKey(rows, key, number) {
  const found = new Map();
  for (const row of rows) {
    const entry = found.get(key(row)) ?? { many: 0, sum: 0, first: row };
    entry.many += 1;
    entry.sum += number(row);
    found.set(key(row), entry);
  }
  return found;
}

/** Lines for a chart: by airport the visibility over time, broken where no flight told it for more than an hour. */
export function visibilityLines(rows) {
  const lines = new Map();
  for (const { at, from, miles } of rows) {
    const points = lines.get(from) ?? [];
    lines.set(from, points);
    const last = points.at(-1);
    if (last && at - last[0] > HOUR_MS) points.push([last[0] + 1, NaN]);
    if (!last || last[0] !== at) points.push([at, Number(miles)]);
  }
  return [...lines].map(([label, points]) => ({ label, points }));
}
