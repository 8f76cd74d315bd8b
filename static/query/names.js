// What the description of a query holds, put into phrases for all pages.

import { counted, duration } from "../base/format.js";

/** The counters whose growth is shown as rates. A query that failed at the start has none. */
export function growing(query) {
  return { in: query.counters?.elements, out: query.counters?.events };
}

/** The static parts in one phrase: "120 rows, 3 s old". */
export function staticSummary(query) {
  const parts = query.static_parts || [];
  if (parts.length === 0) return "none";
  const rows = parts.reduce((sum, part) => sum + part.rows, 0);
  return [counted(rows, "row"), Number.isFinite(query.static_age_ms) ? `${duration(Math.round(query.static_age_ms / 1000) * 1000)} old` : null].filter(Boolean).join(", ");
}

/** Why there is no result, as one sentence, or null. A paused query says so by its state. */
export function waiting(query) {
  const reasons = ["running", "materialising"].includes(query.state) ? query.waiting_for || [] : [];
  if (reasons.length === 0) return null;
  const text = reasons.map((reason) => reason.text).join("; ");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
