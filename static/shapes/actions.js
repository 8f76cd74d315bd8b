// What can be done with shapes: they are copied as a PUT, and deleted.

import { act } from "../base/act.js";
import { call } from "../base/api.js";
import { confirmed } from "../base/ask.js";
import { curl } from "../base/curl.js";
import { counted } from "../base/format.js";
import { shapesPath } from "./path.js";

/** The PUT that gives these shapes, as a curl command. */
export function putCommand({ name, mode, data = [], into, max_time, max_results, text }) {
  const parameters = new URLSearchParams({ mode });
  for (const graph of data) parameters.append("data", graph);
  if (into !== undefined) parameters.set("into", into);
  parameters.set("max_time", max_time);
  parameters.set("max_results", max_results);
  return curl("PUT", shapesPath(name, `?${parameters}`), { body: text, type: "text/turtle" });
}

/** Delete shapes after a question. */
export async function remove({ name, into, results }, then) {
  const graph = into === undefined ? "" : ` and the graph of their report, ${into}`;
  const text = `Their ${counted(results, "result")}${graph} are deleted, and commits are no longer checked by them.`;
  if (!(await confirmed(`Delete the shapes ${name}?`, text, "Delete"))) return;
  await act(() => call("DELETE", shapesPath(name)), `The shapes ${name} are deleted.`, then);
}
