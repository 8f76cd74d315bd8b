// A query that was edited in place can be put back for a minute: what stood there before is kept in this tab.

import { call, queryPath } from "../base/api.js";
import { announce, byId, el, put, setText } from "../base/dom.js";
import { showProblem } from "../base/problem.js";

const KEPT = "quadrill.undo";
const FOR_MS = 60_000;

/** Keep what a query was before it is replaced. */
export function rememberBefore(name, registration) {
  sessionStorage.setItem(KEPT, JSON.stringify({ name, registration, until: Date.now() + FOR_MS }));
}

/** Offer to put a query back, above the view, as long as that can be. */
export function offerUndo(name) {
  const kept = JSON.parse(sessionStorage.getItem(KEPT) || "null");
  if (kept === null || kept.name !== name || kept.until < Date.now()) return;
  const left = el("span", {});
  const button = el("button", { type: "button", class: "quiet", id: "undo" }, "Undo");
  const bar = el("p", { class: "notice row", id: "undo-bar" }, `${name} was replaced: its windows began empty.`, button, left);
  const problem = el("div", {});
  byId("main").prepend(bar, problem);
  const end = () => {
    clearInterval(timer);
    sessionStorage.removeItem(KEPT);
    bar.remove();
  };
  const tick = () => (kept.until < Date.now() ? end() : setText(left, `${Math.ceil((kept.until - Date.now()) / 1000)} s`));
  const timer = setInterval(tick, 1000);
  tick();
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await call("PUT", queryPath(name, "?replace=true"), { json: kept.registration });
      end();
      announce(`${name} is as it was before.`);
      location.reload();
    } catch (failure) {
      put(problem);
      showProblem(problem, failure);
      button.disabled = false;
    }
  });
}
