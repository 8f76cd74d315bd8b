// What is done with a stream as a whole: its watermark is moved, it is dropped.

import { act } from "../base/act.js";
import { call } from "../base/api.js";
import { asked, confirmed } from "../base/ask.js";
import { step } from "../base/menu.js";
import { streamPath } from "./path.js";

/** Ask for a time and move the watermark there. */
export async function heartbeat(stream, then) {
  const at = await asked(`Move the watermark of ${stream.name}`, "To this time, in milliseconds or as xsd:dateTime", String(stream.watermark ?? Date.now()), "Move");
  if (at) await act(() => call("POST", streamPath(stream.name, ":heartbeat", { at })), `${stream.name} has a heartbeat.`, then);
}

/** Drop a stream after a question. */
async function drop(stream, then) {
  if (!(await confirmed(`Drop the stream ${stream.name}?`, "Its retained elements and its dead letters are deleted.", "Drop"))) return;
  await act(() => call("DELETE", streamPath(stream.name)), `${stream.name} is dropped.`, then);
}

/** Why a stream cannot be dropped now, or undefined. */
function dropReason({ readers, derived_from: query }) {
  if (query !== null) return `The query ${query} makes this stream; drop the query.`;
  return readers.length > 0 ? `${readers.length === 1 ? "A query reads" : "Queries read"} this stream: ${readers.join(", ")}.` : undefined;
}

/** The step of a menu that drops a stream. */
export function dropStep(stream, then) {
  return step("Drop", { dataset: { action: "drop" }, needs: "write", reason: dropReason(stream), on: { click: () => drop(stream, then) } });
}
