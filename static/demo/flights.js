// Departures as dots that move over the map from New York to where they go, all of them in one step, thirty times a second.
// Where motion is unwanted a dot stands at its destination for as long as it would have moved.

import { svg } from "../base/dom.js";

const MOST = 400;
const LEAST_MS = 1800;
const MS_PER_DEGREE = 75;
// About thirty pictures a second: dots go slowly, and each picture costs.
const LEAST_BETWEEN_MS = 30;
const still = window.matchMedia("(prefers-reduced-motion: reduce)");

/** How grave a delay in minutes is: the tone of its dot, its radius, and what the legend says of it. */
export const DELAYS = [
  { below: 15, tone: 0, radius: 2.6, text: "less than 15 minutes late" },
  { below: 45, tone: 2, radius: 4, text: "15 to 45 minutes" },
  { below: 120, tone: 3, radius: 5.4, text: "45 minutes to 2 hours" },
  { below: Infinity, tone: 4, radius: 7, text: "2 hours and more" },
];

/** The class of delays that one belongs to. */
export function delayClass(minutes) {
  return DELAYS.find(({ below }) => minutes < below) ?? DELAYS.at(-1);
}

/**
 * Dots over a map of charts/map.js, in a picture of their own, so that the map below is not painted again with each frame; `flying` has one
 * entry for each.
 */
export class Flights {
  constructor() {
    this.layer = svg("svg", { class: "flights", "aria-hidden": "true" });
    this.map = null;
    this.view = null;
    this.shown = 0;
    this.flying = [];
    this.waiting = false;
    this.heldAt = null;
  }

  /** Let all dots stand where they are, or move on from there. */
  hold(held) {
    if (held === (this.heldAt !== null)) return;
    if (held) {
      this.heldAt = performance.now();
      return;
    }
    const stood = performance.now() - this.heldAt;
    for (const flight of this.flying) flight.began += stood;
    this.heldAt = null;
    this.wake();
  }

  /** The map to move on; it may have moved since it was last shown. */
  on(map) {
    this.map = map;
    if (!this.layer.isConnected) map.picture.parentNode.append(this.layer);
    if (this.view === map.view) return;
    this.view = map.view;
    this.layer.setAttribute("viewBox", map.picture.getAttribute("viewBox"));
  }

  /** A departure: from and to as [longitude, latitude], delay in minutes; it begins after `afterMs`. */
  add(from, to, minutes, afterMs = 0) {
    const { tone, radius } = delayClass(minutes);
    const dot = svg("circle", { class: `flight tone-${tone}`, r: radius, hidden: true });
    const began = performance.now() + afterMs;
    this.flying.push({ dot, from, to, began, lasts: LEAST_MS + MS_PER_DEGREE * Math.hypot(to[0] - from[0], to[1] - from[1]) });
    this.layer.append(dot);
    if (this.flying.length > MOST) this.flying.shift().dot.remove();
    this.wake();
  }

  wake() {
    if (this.waiting || this.map === null || this.flying.length === 0 || this.heldAt !== null) return;
    this.waiting = true;
    requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.waiting = false;
    if (this.heldAt !== null) return;
    if (now - this.shown < LEAST_BETWEEN_MS) {
      this.wake();
      return;
    }
    this.shown = now;
    const going = [];
    for (const flight of this.flying) {
      const share = (now - flight.began) / flight.lasts;
      if (share >= 1) {
        flight.dot.remove();
        continue;
      }
      going.push(flight);
      if (share >= 0) this.place(flight, still.matches ? 1 : share);
    }
    this.flying = going;
    // Dots that stand still have only to go: a look now and then does for these.
    if (still.matches) setTimeout(() => this.wake(), 250);
    else this.wake();
  }

  place({ dot, from, to }, share) {
    const [x0, y0] = this.map.at(...from);
    const [x1, y1] = this.map.at(...to);
    // Routes bend a little, so that there and there do not lie on one line.
    const bend = 0.12 * share * (1 - share);
    dot.setAttribute("cx", (x0 + (x1 - x0) * share + bend * (y1 - y0)).toFixed(1));
    dot.setAttribute("cy", (y0 + (y1 - y0) * share - bend * Math.abs(x1 - x0)).toFixed(1));
    dot.removeAttribute("hidden");
  }
}
