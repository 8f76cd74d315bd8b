// What is done with a stream as a whole: its watermark is moved, it is dropped.

import { act } from "../base/act.js";
import { call } from "../base/api.js";
import { streamPath } from "./path.js";

/** Ask for a time and move the watermark there. */
export async function heartbeat(stream, then) {
  const at = window.prompt(`Move the watermark of ${stream.name} to (ms or xsd:dateTime)`, String(stream.watermark ?? Date.now()));
  if (at) await act(() => call("POST", streamPath(stream.name, ":heartbeat", { at })), `${stream.name} has a heartbeat.`, then);
}

/** Drop a stream after a question. */
export async function drop(stream, then) {
  if (!window.confirm(`Drop the stream ${stream.name} and its kept elements?`)) return;
  await act(() => call("DELETE", streamPath(stream.name)), `${stream.name} is dropped.`, then);
}
