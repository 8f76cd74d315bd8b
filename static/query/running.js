// The one-shot queries and updates that run now, with a way to stop each.

import { call } from "../base/api.js";
import { announce, el, poll } from "../base/dom.js";
import { duration } from "../base/format.js";
import { showProblem } from "../base/problem.js";
import { redraw } from "../base/redraw.js";

/** Keep the body of a table current; `then(processes)` follows each look. */
export function watchRunning(body, problemPlace, everyMs, then) {
  const look = async () => {
    try {
      const { data } = await call("GET", "/processes");
      redraw(body, data.processes.map(row));
      then(data.processes);
    } catch {
      // The header shows that the connection is lost; the next round tries again.
    }
  };

  const stop = async (id) => {
    try {
      await call("DELETE", `/processes/${encodeURIComponent(id)}`);
      announce(`${id} is stopped.`);
      await look();
    } catch (problem) {
      showProblem(problemPlace, problem);
    }
  };

  const row = (process) => el("tr", { dataset: { key: process.id } },
    el("th", { scope: "row" }, process.id),
    el("td", { "data-name": "Kind" }, process.kind, el("span", { class: "sub" }, [process.lane, process.user].filter(Boolean).join(", "))),
    el("td", { "data-name": "Running for" }, duration(process.seconds * 1000), process.stopping ? el("span", { class: "sub" }, "stopping") : null),
    el("td", { "data-name": "Text" }, el("code", { class: "wrap" }, process.text.slice(0, 600))),
    el("td", { class: "actions" }, el("button", { type: "button", class: "quiet danger", needs: "admin", on: { click: () => stop(process.id) } }, "Stop")));

  poll(look, everyMs);
}
