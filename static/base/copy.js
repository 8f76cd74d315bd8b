// Copy text to the clipboard, also where the page has no secure address.

import { announce, el } from "./dom.js";

/** Copy `text` and say so; `what` names it in the message. */
export async function copyText(text, what) {
  announce((await copied(text)) ? `${what} is copied.` : `${what} was not copied: the browser did not allow it.`);
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Not allowed, or no secure address: the older way, by a selection.
    const area = el("textarea", { class: "visually-hidden", readonly: true, "aria-hidden": "true" });
    const before = document.activeElement;
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    before?.focus();
    return done;
  }
}

/** A word for a shell: in single quotes. */
export function shellWord(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
