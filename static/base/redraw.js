// Changes what is shown to what should be shown, and leaves every element that stays where it is:
// the keyboard's focus, a click under way, a selection, an opened detail live in elements.

import { append, listenAs } from "./dom.js";

/**
 * Give `place` these children. Elements with `data-key` are the same ones as before if their keys are,
 * others if they have the same name at the same place.
 */
export function redraw(place, ...children) {
  arrange(place, append(document.createDocumentFragment(), children));
}

function keyOf(node) {
  return node.dataset?.key;
}

function arrange(place, wanted) {
  const fresh = [...wanted.childNodes];
  const keys = new Set(fresh.map(keyOf));
  const kept = new Map();
  for (const old of [...place.childNodes]) {
    const key = keyOf(old);
    if (key === undefined) continue;
    if (keys.has(key)) kept.set(key, old);
    else old.remove();
  }
  let here = place.firstChild;
  for (const node of fresh) {
    const old = keyOf(node) === undefined ? here : kept.get(keyOf(node));
    if (!old || old.nodeName !== node.nodeName || keyOf(old) !== keyOf(node)) {
      place.insertBefore(node, here);
      continue;
    }
    if (old === here) here = here.nextSibling;
    else place.insertBefore(old, here);
    change(old, node);
  }
  while (here) {
    const next = here.nextSibling;
    here.remove();
    here = next;
  }
}

function change(old, node) {
  if (!(old instanceof Element)) {
    if (old.data !== node.data) old.data = node.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    // Opened by a person, or moved to its button: the copy knows nothing of it.
    const isKept = (name === "open" && old.nodeName === "DETAILS") || (name === "style" && old.hasAttribute("popover"));
    if (!node.hasAttribute(name) && !isKept) old.removeAttribute(name);
  }
  for (const { name, value } of node.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  listenAs(old, node);
  arrange(old, node);
}
