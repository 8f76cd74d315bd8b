// Figures of a stream in words: how far its time is behind, what was late, what it is told about time.

import { count, duration } from "../base/format.js";

/** How far the watermark is behind the clock; of recorded data that is long. */
export function lag(stream, now = Date.now()) {
  return stream.watermark === null ? null : Math.max(0, now - stream.watermark);
}

const YEAR_MS = 365.25 * 86_400_000;

/** The lag in words, exact in the second text. */
export function lagText(stream) {
  const behind = lag(stream);
  if (behind === null) return ["no watermark yet", null];
  const shown = behind < YEAR_MS ? duration(behind) : `${(behind / YEAR_MS).toFixed(1)} years`;
  return [`${shown} behind`, `${count(behind)} ms behind the clock of this browser`];
}

/** What was late, by what became of it, and what was ahead of the clock. */
export function lateText(stream) {
  const parts = Object.entries({ ...stream.late_counts, early: stream.early_count }).filter(([, many]) => many > 0).map(([what, many]) => `${count(many)} ${what}`);
  return parts.length === 0 ? "none" : parts.join(", ");
}

/** How its elements get their times. */
export function timeText(stream) {
  return [stream.stamping ? `${stream.stamping}-stamped` : "no element yet", stream.lateness_ms ? `lateness ${duration(stream.lateness_ms)}` : null]
    .filter(Boolean).join(", ");
}
