// What the descriptions of queries and streams hold, read in one place for all pages.

import { counted, duration } from "./format.js";

/** The first of these members that is there. */
function first(object, ...names) {
  for (const name of names) {
    const value = name.split(".").reduce((inner, part) => (inner === null || inner === undefined ? undefined : inner[part]), object);
    if (value !== undefined && value !== null) return value;
  }
  return null;
}

/** The text of an error member, which is a sentence or a problem document. */
export function errorText(error) {
  if (!error) return null;
  return typeof error === "string" ? error : error.detail || error.message || JSON.stringify(error);
}

/** Counters that only grow, for rates. */
export function growing(query) {
  return {
    in: first(query, "counters.elements_in", "counters.elements", "elements_in"),
    out: first(query, "counters.rows_out", "counters.rows", "counters.events", "rows_out"),
  };
}

/** The static parts in one phrase: "2 parts, 120 rows, 3 s old". */
export function staticSummary(query) {
  const parts = query.static_parts || [];
  if (parts.length === 0) return "none";
  const rows = parts.reduce((sum, part) => sum + (part.rows || 0), 0);
  const age = staticAge(query);
  return [counted(rows, "row"), age === null ? null : `${duration(age)} old`].filter(Boolean).join(", ");
}

function staticAge(query) {
  const ages = (query.static_parts || []).map((part) => part.age_ms).filter(Number.isFinite);
  const stated = first(query, "static_age_ms");
  if (stated !== null) return stated;
  return ages.length > 0 ? Math.max(...ages) : null;
}

/** Why there is no result, as sentences. */
export function waiting(query) {
  const reasons = query.waiting_for;
  if (!reasons) return [];
  return (Array.isArray(reasons) ? reasons : [reasons]).map((reason) => (typeof reason === "string" ? reason : reason.detail || JSON.stringify(reason)));
}
