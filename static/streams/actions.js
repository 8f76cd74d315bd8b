// What is done with a stream as a whole: its watermark is moved, it is dropped.

import { call } from "../base/api.js";
import { announce, byId } from "../base/dom.js";
import { clearProblem, showProblem } from "../base/problem.js";
import { streamPath } from "./path.js";

/** Do a step, say what was done, then go on with `then`; a problem is shown in `#problem`. */
export async function act(step, done, then) {
  clearProblem(byId("problem"));
  try {
    const answer = await step();
    announce(typeof done === "function" ? done(answer.data) : done);
    await then();
  } catch (problem) {
    showProblem(byId("problem"), problem);
  }
}

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
