// How many triples the commits of the last minute added to and removed from the graph of a rule set.

const MINUTE_S = 60;
const POINT_S = 5;

/** Counts by second. The minute ends with the newest time that it was given; all times are the server's. */
export class LastMinute {
  constructor() {
    this.endS = 0;
    this.seconds = new Map();
  }

  /** Move the end of the minute to a time in milliseconds; times before the end change nothing. */
  moveTo(atMs) {
    if (!Number.isFinite(atMs)) return;
    this.endS = Math.max(this.endS, Math.floor(atMs / 1000));
    for (const second of this.seconds.keys()) if (second <= this.endS - MINUTE_S) this.seconds.delete(second);
  }

  /** Count what a commit changed, if anything. */
  add(atMs, { added, removed }) {
    if (added + removed === 0) return;
    this.moveTo(atMs);
    const second = Math.floor(atMs / 1000);
    if (second <= this.endS - MINUTE_S) return;
    const before = this.seconds.get(second) ?? { added: 0, removed: 0, commits: 0 };
    this.seconds.set(second, { added: before.added + added, removed: before.removed + removed, commits: before.commits + 1 });
  }

  /** What the minute has in all: `added`, `removed`, and the number of `commits` that changed something. */
  total() {
    return this.between(this.endS - MINUTE_S, this.endS);
  }

  between(afterS, lastS) {
    const sum = { added: 0, removed: 0, commits: 0 };
    for (const [second, each] of this.seconds) {
      if (second <= afterS || second > lastS) continue;
      for (const name of Object.keys(sum)) sum[name] += each[name];
    }
    return sum;
  }

  /** The rates for `drawChart`: one point for five seconds, with triples added and removed per second. */
  get samples() {
    return Array.from({ length: MINUTE_S / POINT_S }, (_, i) => {
      const lastS = this.endS - MINUTE_S + (i + 1) * POINT_S;
      const { added, removed } = this.between(lastS - POINT_S, lastS);
      return { atMs: lastS * 1000, values: [added / POINT_S, removed / POINT_S] };
    });
  }

  /** The rates of the last five seconds. */
  latest() {
    return this.samples.at(-1).values;
  }
}
