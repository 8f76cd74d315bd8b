// Questions before steps that cannot be undone, and for values that a step needs, in dialogs of the page.

import { el } from "./dom.js";

let number = 0;

/** Open a dialog with a title, further nodes and two buttons; gives true if the step was confirmed. */
function open(title, nodes, step, kind) {
  number += 1;
  const id = `ask-${number}`;
  const dialog = el("dialog", { class: "ask", "aria-labelledby": id },
    el("form", { method: "dialog" },
      el("h2", { id }, title), nodes,
      el("div", { class: "actions" }, el("button", { value: "no", formnovalidate: true }, "Cancel"),
        el("button", { value: "yes", class: kind, dataset: { confirm: "" } }, step))));
  const answer = new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
  });
  document.body.append(dialog);
  dialog.showModal();
  return answer;
}

/** Ask whether to do a step: what it does as `title`, what is lost as `text`, the word of its button as `step`. */
export function confirmed(title, text, step) {
  return open(title, el("p", {}, text), step, "danger");
}

/** Ask for a value, which begins with `value`; gives null if none is given. */
export async function asked(title, label, value, step) {
  const input = el("input", { required: true, autocomplete: "off", spellcheck: "false", value, autofocus: true });
  return (await open(title, el("label", {}, label, input), step, "primary")) ? input.value.trim() : null;
}
