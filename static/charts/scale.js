// What charts share: round steps for an axis, marks of time, figures that fit an axis, the width that there is.

const STEPS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 900_000,
  1_800_000, 3_600_000, 7_200_000, 10_800_000, 21_600_000, 43_200_000, 86_400_000, 172_800_000, 604_800_000, 2_592_000_000, 31_536_000_000];

/** Round values from `low` to `high`, about `count` of them, the first and last ones enclosing all. */
export function roundSteps(low, high, count = 4) {
  if (!(high > low)) [low, high] = low === 0 ? [0, 1] : [Math.min(0, low), Math.max(0, low)];
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= raw * 0.999);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

/** Instants between two times, at most `count`, on whole seconds, minutes, hours. */
export function timeSteps(from, to, count = 5) {
  const step = STEPS_MS.find((each) => (to - from) / each <= count) ?? STEPS_MS.at(-1);
  const first = Math.ceil(from / step);
  const last = Math.floor(to / step);
  return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => (first + i) * step);
}

/** An instant as short as its neighbours allow: a date over days, else a time of day, with seconds where they matter. */
export function timeMark(ms, spanMs) {
  const text = new Date(ms).toISOString();
  if (spanMs > 5 * 86_400_000) return text.slice(0, 10);
  if (spanMs > 86_400_000) return `${text.slice(5, 10)} ${text.slice(11, 16)}`;
  if (spanMs > 240_000) return text.slice(11, 16);
  return spanMs > 4000 ? text.slice(11, 19) : text.slice(14, 23);
}

/** A number for the eye: at most four digits that count, thousands grouped. */
export function rounded(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e12)) return value.toExponential(2);
  return new Intl.NumberFormat("en", size >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 }).format(value);
}

/** How wide a chart in this place is in CSS pixels, so that its letters have their real size. */
export function widthOf(place, otherwise = 640) {
  return Math.max(260, Math.min(1400, place.clientWidth || otherwise));
}

const watched = new WeakMap();
const watch = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const known = watched.get(target);
    // A place that is hidden has no width; it is drawn again when it is seen.
    if (!known || contentRect.width === 0 || Math.abs(contentRect.width - known.width) < 1) continue;
    known.width = contentRect.width;
    known.draw();
  }
});

/** Draw again with the newest data when the place gets another width. */
export function drawnAgain(place, draw) {
  const known = watched.get(place);
  if (known) {
    known.draw = draw;
    return;
  }
  watched.set(place, { draw, width: place.clientWidth });
  watch.observe(place);
}
