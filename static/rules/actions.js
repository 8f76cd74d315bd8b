// What can be done with a rule set: it is put again or deleted. A button that is off says why.

import { act } from "../base/act.js";
import { call, Problem } from "../base/api.js";
import { confirmed } from "../base/ask.js";
import { counted } from "../base/format.js";
import { rulesPath } from "./path.js";

const LOOK_MS = 500;
const BUSY = "Its graph is being computed; wait for the end.";

/** The members of the PUT that gives this set. */
export function definitionOf({ rules, include, into, from, max_inferred, max_time, on_budget }) {
  return { rules, include, into, from, max_inferred, max_time, on_budget };
}

/** Why the set cannot be put again now, or null; `refusal` says why the sender may not write, or is null. */
export function putRefusal({ state }, refusal) {
  if (refusal !== null) return refusal;
  if (state === "materialising") return BUSY;
  return state === "ready" ? "Its graph is complete; the same definition would change nothing." : null;
}

/** Why the set cannot be deleted now, or null. */
export function deleteRefusal({ state }, refusal) {
  return refusal ?? (state === "materialising" ? BUSY : null);
}

/** Compute the graph of a suspended or failed set again after a question; `then` is called when the computation begins and when it ends. */
export async function putAgain(set, then) {
  if (!(await confirmed(`Put the rule set ${set.name} again?`, "Its graph is computed again from all input graphs, which may take long.", "Put again"))) return;
  await act(() => put(set, then), `The rule set ${set.name} was put again.`, then);
}

async function put(set, then) {
  const { status, data } = await call("PUT", `${rulesPath(set.name)}?wait=false`, { json: definitionOf(set) });
  await then();
  let job = data;
  while (status === 202 && (job.state === "queued" || job.state === "running")) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    job = (await call("GET", `/jobs/${encodeURIComponent(data.id)}`)).data;
  }
  if (status === 202 && job.state !== "done") throw new Problem({ title: "The rule set was not put", detail: job.error ?? `The job is ${job.state}.` });
  return { data: job };
}

/** Delete a set after a question. */
export async function remove(set, then) {
  if (!(await confirmed(`Delete the rule set ${set.name}?`, `Its graph with ${counted(set.inferred, "inferred triple")} is deleted, too.`, "Delete"))) return;
  await act(() => call("DELETE", rulesPath(set.name)), `The rule set ${set.name} is deleted.`, then);
}
