// A field for each parameter (`"$name$"`) of the text. Values stay while the text changes.

import { byId, el, put } from "../base/dom.js";

const values = {};
let shown = "";

/** Show a field for each parameter of a text; `given` are values to begin with. */
export function showParameters(text, given = {}) {
  Object.assign(values, given);
  const names = [...new Set([...text.matchAll(/(["'])\$([\w ]+)\$\1/g)].map(([, , name]) => name))];
  if (String(names) === shown) return;
  shown = String(names);
  const place = byId("parameters");
  place.hidden = names.length === 0;
  put(place, el("legend", {}, "Parameters"), el("div", { class: "fields" }, names.map((name) =>
    el("label", {}, name, el("input", { autocomplete: "off", spellcheck: "false", value: values[name] ?? "", dataset: { parameter: name },
      on: { input: (event) => (values[name] = event.target.value) } })))));
}

/** The values of the parameters that the text has. */
export function parameterValues() {
  const fields = [...document.querySelectorAll("[data-parameter]")].filter((field) => field.value !== "");
  return Object.fromEntries(fields.map((field) => [field.dataset.parameter, field.value]));
}
