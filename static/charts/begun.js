// Rates of many things: begun with the server's history of the last hour, kept up by looks at their counters.

import { call } from "../base/api.js";
import { Rates } from "./lines.js";

const BEGUN_AT_ONCE = 50;

/** Rates by key. The history of the first fifty is asked for, that of the others grows. */
export class BegunRates {
  /** `pathOf(key)` is where the history of one is; `members` are its columns, in the order of the counters' `names`. */
  constructor(names, pathOf, members = names) {
    this.names = names;
    this.members = members;
    this.pathOf = pathOf;
    this.known = new Map();
  }

  /** The rates of one with what it counts now. */
  of(key, counters) {
    let rates = this.known.get(key);
    if (rates === undefined) {
      rates = new Rates(this.names);
      this.known.set(key, rates);
      if (this.known.size <= BEGUN_AT_ONCE) this.begin(key, rates);
    }
    rates.add(counters);
    return rates;
  }

  /** Forget all but these. */
  keep(keys) {
    for (const key of this.known.keys()) if (!keys.has(key)) this.known.delete(key);
  }

  async begin(key, rates) {
    try {
      rates.begin((await call("GET", this.pathOf(key))).data, this.members);
    } catch {
      // It may be gone; its row goes, too.
    }
  }
}
