// Requests as curl commands, and buttons that copy a text.

import { announce, el } from "./dom.js";
import { at } from "./root.js";

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A request to this server as a curl command; `options` are those of `call`, and `stream` for an answer that goes on. */
export function curl(method, path, { json, body, type, accept, stream = false } = {}) {
  const sent = json === undefined ? body : JSON.stringify(json);
  const media = json === undefined ? type : "application/json";
  const parts = ["curl", stream ? "-N" : null, method === "GET" || (method === "POST" && sent !== undefined) ? null : `-X ${method}`,
    quoted(location.origin + at(path)), accept ? `-H ${quoted(`Accept: ${accept}`)}` : null, media && sent !== undefined ? `-H ${quoted(`Content-Type: ${media}`)}` : null,
    sent === undefined ? null : `--data-binary ${quoted(sent)}`];
  return parts.filter(Boolean).join(" ");
}

/** Copy a text; browsers give the clipboard to secure pages alone, others copy what is selected. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = el("textarea", { class: "visually-hidden", "aria-hidden": "true" });
    area.value = text;
    const before = document.activeElement;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    before?.focus();
  }
  announce("Copied.");
}

/** A button that copies what `text()` gives when it is pressed. */
export function copyButton(text, label = "Copy as curl") {
  return el("button", { type: "button", class: "quiet copy", on: { click: () => copy(text()) } }, label);
}

/** A command to look at, with a button that copies it. */
export function commandBox(command) {
  return el("div", { class: "command" }, el("pre", { class: "listing wrap", tabindex: "0" }, command), copyButton(() => command, "Copy"));
}
