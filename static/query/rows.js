// The rows that pictures are drawn of: those of a continuous query's feed and answer, or those of one answer.

import { instant } from "../base/format.js";

const MOST_TIMED = 3000;
const MOST = 500;

/** Rows of a feed's events and of the answer that stands. */
export class FeedRows {
  constructor(events, answer) {
    this.events = events;
    this.answer = answer;
    this.stands = answer?.results?.bindings.length > 0;
    this.running = true;
    this.told = this.stands ? `of the answer at ${instant(answer.at)} (UTC)` : "of the newest rows that came; the answer has none now";
  }

  get variables() {
    return this.answer?.head?.vars ?? this.events.findLast(({ data }) => data.head?.vars)?.data.head.vars ?? [];
  }

  /** Rows of the answer, or of the newest events when it has none. */
  rows(mostEvents = this.events.length) {
    return this.stands ? this.answer.results.bindings : timedRows(this.events.slice(-mostEvents)).slice(-MOST).map(({ row }) => row);
  }

  /** Rows of events with their event times, [{ at, row }]. */
  timed() {
    return timedRows(this.events).slice(-MOST_TIMED);
  }
}

function timedRows(events) {
  return events.flatMap(({ kind, data }) => (kind === "delete" ? [] : (data.results?.bindings ?? []).map((row) => ({ at: data.at, row }))));
}

/** Rows of the answer to one query; a column of times stands for event time. */
export class AnswerRows {
  constructor({ head, results }) {
    this.variables = head.vars ?? [];
    this.bindings = results.bindings;
    this.running = false;
    this.told = this.bindings.length > MOST_TIMED ? `of the first ${MOST_TIMED} rows` : "of the answer";
  }

  rows(most = MOST_TIMED) {
    return this.bindings.slice(0, most);
  }

  timed(column) {
    return this.rows().filter((row) => row[column]).map((row) => ({ at: Date.parse(row[column].value), row })).filter(({ at }) => Number.isFinite(at));
  }
}
