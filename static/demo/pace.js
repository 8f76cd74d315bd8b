// Pause and speed of the demo's replay: a button and a choice, which all who watch share.

import { call } from "../base/api.js";
import { byId, el, put, setText } from "../base/dom.js";
import { showProblem } from "../base/problem.js";

const SPEEDS = [[600, "10 minutes a second"], [2400, "40 minutes a second"], [7200, "2 hours a second"]];

/** Work `#pause` and `#speed`; `changed(paused)` follows each change, also by others. `refusal` says why the sender may not, or is null. */
export class Pace {
  constructor(pace, refusal, changed) {
    this.changed = changed;
    for (const control of [byId("pause"), byId("speed")]) {
      control.disabled = refusal !== null;
      control.title = refusal ?? "";
    }
    byId("pause").addEventListener("click", () => this.set({ paused: !this.pace.paused }));
    byId("speed").addEventListener("change", (event) => this.set({ speed: Number(event.currentTarget.value) }));
    this.show(pace);
  }

  show(pace) {
    this.pace = pace;
    setText(byId("pause"), pace.paused ? "Continue" : "Pause");
    byId("pause").setAttribute("aria-pressed", String(pace.paused));
    const speeds = SPEEDS.some(([speed]) => speed === pace.speed) ? SPEEDS : [...SPEEDS, [pace.speed, `${pace.speed} times as fast as it was`]];
    if (byId("speed").options.length !== speeds.length) put(byId("speed"), speeds.map(([speed, name]) => el("option", { value: speed }, name)));
    byId("speed").value = String(pace.speed);
    this.changed(pace.paused);
  }

  async set(members) {
    try {
      this.show((await call("PUT", "/ui/demo/pace", { json: members })).data);
    } catch (problem) {
      showProblem(byId("problem"), problem);
    }
  }

  async look() {
    this.show((await call("GET", "/ui/demo/pace")).data);
  }
}
