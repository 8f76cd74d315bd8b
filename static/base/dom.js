// Builds elements. Text always goes in as text nodes: nothing in this folder ever parses a string as HTML,
// so data from the store or a stream is shown, never run.

import { refusalOf } from "./refusal.js";
import { at } from "./root.js";

const listeners = new WeakMap();

/**
 * An element with attributes and children.
 * `attributes` members: `class`, `title`, `dataset` (object), `on` (event name to listener), booleans
 * (present or absent), anything else as an attribute; an `href` that begins with a slash is a path of the
 * server; `needs` and `reason` of a button (the role of its request, and why it cannot work now). Children: nodes, strings, numbers; null is left out.
 */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG elements. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      listeners.set(node, value);
      for (const event of Object.keys(value)) node.addEventListener(event, hear);
    } else if (name === "dataset") {
      Object.assign(node.dataset, value);
    } else if (name === "needs") {
      // A button that the sender's role does not permit, or that cannot work for another `reason`, is off and says why.
      const reason = refusalOf(value) ?? attributes.reason ?? null;
      node.disabled = reason !== null;
      if (reason !== null) node.title = reason;
    } else if (name !== "reason") {
      const text = value === true ? "" : String(value);
      node.setAttribute(name, name === "href" && text.startsWith("/") ? at(text) : text);
    }
  }
  append(node, children);
  return node;
}

function hear(event) {
  listeners.get(event.currentTarget)[event.type]?.(event);
}

/** Let `node` do what a younger copy of it does. */
export function listenAs(node, copy) {
  if (listeners.has(copy)) listeners.set(node, listeners.get(copy));
}

/** Append children; arrays are flattened, null and undefined left out. */
export function append(node, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return node;
}

/** Replace all children. */
export function put(node, ...children) {
  node.replaceChildren();
  return append(node, children);
}

/** Set the text only when it differs, so that screen readers and selections are left alone. */
export function setText(node, text) {
  const wanted = text === null || text === undefined ? "" : String(text);
  if (node && node.textContent !== wanted) node.textContent = wanted;
}

/** One figure of a list of figures: its name and its value. */
export function figure(name, value, title = null) {
  return el("div", {}, el("dt", {}, name), el("dd", { title }, value));
}

/** An IRI that may break its line behind slashes and hashes, so that names stay whole where they can. */
export function breakable(iri) {
  return iri.split(/(?<=[/#?&])/).flatMap((piece, i) => (i === 0 ? [piece] : [document.createElement("wbr"), piece]));
}

/** The element with this id. */
export function byId(id) {
  return document.getElementById(id);
}

/** The state that the server put into the page as a JSON data block, or `fallback`. */
export function serverState(fallback = {}) {
  const block = byId("state");
  return block ? JSON.parse(block.textContent) : fallback;
}

/** Say something to screen readers and, for a few seconds, at the foot of the page. */
export function announce(message, kind = "info") {
  const place = byId("announcements");
  const note = el("p", { class: `note note-${kind}` }, message);
  place.append(note);
  setTimeout(() => note.remove(), 6000);
}

/**
 * Call `step` now and then every `everyMs`, never two at once, and not while the page is hidden.
 * With `share`, steps take at most this share of the time: after a long one the next is later.
 */
export function poll(step, everyMs, share = 1) {
  let running = false;
  let nextMs = 0;
  const tick = async () => {
    if (running || document.hidden || performance.now() < nextMs) return;
    running = true;
    const beganMs = performance.now();
    try {
      await step();
    } finally {
      running = false;
      nextMs = performance.now() + (performance.now() - beganMs) * (1 / share - 1);
    }
  };
  tick();
  document.addEventListener("visibilitychange", tick);
  const timer = setInterval(tick, everyMs);
  return () => clearInterval(timer);
}
