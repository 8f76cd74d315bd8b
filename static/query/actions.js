// What can be done with a registered query: the same buttons on the list and on the query's own page.

import { call, queryPath } from "../base/api.js";
import { confirmed } from "../base/ask.js";
import { announce } from "../base/dom.js";
import { showProblem } from "../base/problem.js";

const STEPS = {
  pause: { run: (name) => call("PATCH", queryPath(name), { json: { state: "paused" } }), done: "is paused" },
  resume: { run: (name) => call("PATCH", queryPath(name), { json: { state: "running" } }), done: "runs again" },
  refresh: { run: (name) => call("POST", queryPath(name, "/refresh")), done: "has fresh static parts" },
  replay: { run: (name) => call("POST", queryPath(name, "/replay")), done: "was evaluated once more over the retained elements" },
  drop: { run: (name) => call("DELETE", queryPath(name)), done: "is dropped" },
};

/** The dialogs of steps that cannot be undone: title, text, and the word of the button. */
const QUESTIONS = {
  replay: (name) => [`Replay the query ${name}?`, "It is evaluated again over the retained elements. Its feed begins anew, so subscribers get a reset.", "Replay"],
  drop: (name) => [`Drop the query ${name}?`, "Its feed ends for all subscribers, and its results are deleted.", "Drop"],
};

/** Listen for the action buttons inside `root`; `nameOf(button)` gives the query, `then(action)` follows a success. */
export function listenForActions(root, nameOf, problemPlace, then) {
  root.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-action]");
    if (!button) return;
    const name = nameOf(button);
    const action = button.dataset.action;
    if (action in QUESTIONS && !(await confirmed(...QUESTIONS[action](name)))) return;
    button.disabled = true;
    try {
      await STEPS[action].run(name);
      announce(`${name} ${STEPS[action].done}.`);
      await then(action);
    } catch (problem) {
      showProblem(problemPlace, problem);
    } finally {
      button.disabled = false;
    }
  });
}

/** Show the buttons that fit the state. */
export function fitActions(root, state) {
  const show = (action, visible) => {
    const button = root.querySelector(`button[data-action="${action}"]`);
    if (button) button.hidden = !visible;
  };
  show("pause", state === "running");
  show("resume", state !== "running");
  show("refresh", state === "running");
}
