// Running queries and updates, with a way to stop each.

import { byId, setText } from "../base/dom.js";
import { counted } from "../base/format.js";
import { watchRunning } from "../query/running.js";

watchRunning(byId("processes").tBodies[0], byId("problem"), 1000, (processes) => {
  byId("no-processes").hidden = processes.length > 0;
  setText(byId("summary"), processes.length === 0 ? "" : `${counted(processes.length, "query", "queries")} running`);
});
