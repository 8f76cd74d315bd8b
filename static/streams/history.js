// The rates of streams: begun with the server's history of the last hour, kept up by looks at their counters.

import { call } from "../base/api.js";
import { Rates } from "../charts/lines.js";
import { streamPath } from "./path.js";

const BEGUN_AT_ONCE = 50;

/** The rates of several streams by IRI; the history of the first fifty is asked for, that of the others grows. */
export class StreamRates {
  constructor() {
    this.known = new Map();
  }

  /** The rates of a stream with what it counts now: elements and late ones. */
  of(stream) {
    let rates = this.known.get(stream.iri);
    if (rates === undefined) {
      rates = new Rates(["elements", "late"]);
      this.known.set(stream.iri, rates);
      if (this.known.size <= BEGUN_AT_ONCE) this.begin(stream, rates);
    }
    rates.add({ elements: stream.elements, late: stream.late_count });
    return rates;
  }

  async begin(stream, rates) {
    try {
      rates.begin((await call("GET", streamPath(stream.name, "/history"))).data);
    } catch {
      // The stream may be gone; its row goes, too.
    }
  }
}
