// Numbers, times and durations for people. Event times are shown in UTC: they may lie years back.

const GROUPED = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** 1234567 -> "1,234,567"; unknown -> "–". */
export function count(value) {
  return Number.isFinite(value) ? GROUPED.format(value) : "–";
}

/** A rate per second with sensible digits: 0, 0.25, 3.1, 1,240. */
export function rate(value) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  if (value < 0.01) return "<0.01";
  if (value < 10) return String(Number(value.toPrecision(2)));
  return GROUPED.format(value);
}

/** Milliseconds since the epoch, or an xsd:dateTime -> "2013-01-06 05:12:00" UTC, milliseconds when not zero. */
export function instant(value) {
  if (value === null || value === undefined || value === "") return "–";
  const date = new Date(value);
  if (Number.isNaN(date.getTime())) return String(value);
  const text = date.toISOString().replace("T", " ").replace("Z", "");
  return text.endsWith(".000") ? text.slice(0, -4) : text;
}

/** From and to; the day is said once when it is the same. */
export function interval(open, close) {
  const [from, to] = [instant(open), instant(close)];
  return `${from} – ${from.slice(0, 11) === to.slice(0, 11) ? to.slice(11) : to}`;
}

/** 1500 -> "1.5 s", 125000 -> "2 min 5 s". */
export function duration(ms) {
  if (!Number.isFinite(ms)) return "–";
  const sign = ms < 0 ? "−" : "";
  const size = Math.abs(ms);
  if (size < 1000) return `${sign}${Math.round(size)} ms`;
  if (size < 60_000) return `${sign}${Number((size / 1000).toFixed(1))} s`;
  const units = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]];
  const parts = [];
  let rest = size;
  for (const [unit, length] of units) {
    const many = Math.floor(rest / length);
    if (many > 0) parts.push(`${many} ${unit}`);
    rest -= many * length;
    if (parts.length === 2) break;
  }
  return sign + parts.join(" ");
}

/** How long ago a wall-clock time was. */
export function ago(ms, now = Date.now()) {
  if (!Number.isFinite(ms)) return "–";
  const age = now - ms;
  return age < 1500 ? "just now" : `${duration(Math.round(age / 1000) * 1000)} ago`;
}

/** 1536 -> "1.5 kB". */
export function bytes(value) {
  if (!Number.isFinite(value)) return "–";
  const units = ["B", "kB", "MB", "GB"];
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? size : size.toFixed(1)} ${units[unit]}`;
}

/** A plural by the number: counted(1, "row") -> "1 row". */
export function counted(value, noun, plural = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : plural}`;
}
