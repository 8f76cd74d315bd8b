// Runs the request of a button, then announces that it is done or shows what is wrong.

import { announce, byId } from "./dom.js";
import { clearProblem, showProblem } from "./problem.js";

/** Do a step, announce `done` (a text, or a function of the answer's data), then call `then`; a problem is shown in `#problem`. */
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
