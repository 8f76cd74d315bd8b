// Which pictures fit the columns of an answer, and the data of each picture.
// A number over a running time gives lines, a name with a number bars, latitude with longitude or WKT points a map; a table fits always.

import { isNumeric } from "../base/terms.js";

const DATE_TIME = "http://www.w3.org/2001/XMLSchema#dateTime";
const LATITUDE = /^(.*?)_?(lat|latitude)$/i;
const WKT_POINT = /^\s*(<[^>]*>)?\s*POINT\s*Z?\s*\(\s*(-?[\d.eE+-]+)\s+(-?[\d.eE+-]+)[^)]*\)\s*$/i;
const SAMPLE = 60;

/** What each variable holds, told by the newest rows: { numbers, times, names, places }; a place is { lat, lon } or { wkt }. */
export function kindsOf(variables, rows) {
  const sample = rows.slice(-SAMPLE);
  const all = (name, holds) => {
    const bound = sample.map((row) => row[name]).filter(Boolean);
    return bound.length > 0 && bound.every(holds);
  };
  let numbers = variables.filter((name) => all(name, isNumeric));
  const places = placesOf(variables, numbers, all);
  const used = new Set(places.flatMap(Object.values));
  numbers = numbers.filter((name) => !used.has(name));
  const times = variables.filter((name) => all(name, (term) => term.datatype === DATE_TIME));
  const names = variables.filter((name) => !used.has(name) && !numbers.includes(name) && !times.includes(name) && all(name, () => true));
  return { numbers, times, names, places, many: Object.fromEntries(names.map((name) => [name, new Set(sample.map((row) => row[name]?.value)).size])) };
}

function placesOf(variables, numbers, all) {
  const pairs = numbers.flatMap((lat) => {
    const stem = LATITUDE.exec(lat)?.[1];
    const lon = stem === undefined ? undefined : numbers.find((name) => new RegExp(`^${stem}_?(lon|long|lng|longitude)$`, "i").test(name));
    return lon && all(lat, ({ value }) => Math.abs(value) <= 90) && all(lon, ({ value }) => Math.abs(value) <= 180) ? [{ lat, lon }] : [];
  });
  return [...pairs, ...variables.filter((name) => all(name, ({ value }) => WKT_POINT.test(value))).map((wkt) => ({ wkt }))];
}

/** The pictures that fit, a table first; `running` says that rows come with an event time. */
export function fitting({ numbers, times, names, places }, running) {
  return ["table", numbers.length > 0 && (running || times.length > 0) ? "line" : null, numbers.length > 0 && names.length > 0 ? "bar" : null,
    places.length > 0 ? "map" : null].filter(Boolean);
}

/** The column that names bars (it tells most rows apart) or lines (it has few values, but more than one). */
export function namingColumn({ names, many }, kind) {
  const order = [...names].sort((a, b) => many[a] - many[b]);
  return (kind === "bar" ? order.at(-1) : order.find((name) => many[name] > 1) ?? order[0]) ?? null;
}

function grouped(items, keyOf) {
  const groups = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (groups.has(key)) groups.get(key).push(item);
    else groups.set(key, [item]);
  }
  return groups;
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

/** Bars of rows: one for each value of `name`; where several rows have it, their mean. `show(term)` gives labels. */
export function barsOf(rows, name, number, show) {
  return [...grouped(rows.filter((row) => row[name] && row[number]), (row) => row[name].value)].map(([, same]) => ({
    label: show(same[0][name]), key: { name, term: same[0][name] }, value: mean(same.map((row) => Number(row[number].value))),
    title: same.length === 1 ? same[0][number].value : `mean of ${same.length} rows: ${mean(same.map((row) => Number(row[number].value)))}` }));
}

/** Lines of rows with their event times, [{ at, row }] in any order: one for each value of `name`, or one in all for null. */
export function linesOf(timed, name, number, show) {
  const known = timed.filter(({ row }) => row[number] && (name === null || row[name])).sort((a, b) => a.at - b.at);
  return [...grouped(known, ({ row }) => (name === null ? "" : row[name].value))].map(([, same]) => ({
    label: name === null ? `?${number}` : show(same[0].row[name]), key: name === null ? null : { name, term: same[0].row[name] },
    points: [...grouped(same, ({ at }) => at)].map(([at, here]) => [at, mean(here.map(({ row }) => Number(row[number].value)))]) }));
}

/** Points of rows: one for each place of a row. */
export function pointsOf(rows, places, name, number, show) {
  return rows.flatMap((row) => places.flatMap((place) => {
    const spot = spotOf(row, place);
    if (spot === null) return [];
    const label = name === null || !row[name] ? "" : show(row[name]);
    const value = number === null || !row[number] ? undefined : Number(row[number].value);
    return [{ ...spot, label, value, key: name === null ? null : { name, term: row[name] },
      title: [label, value === undefined ? "" : `?${number} ${row[number].value}`].filter(Boolean).join(", ") }];
  }));
}

function spotOf(row, { lat, lon, wkt }) {
  if (wkt === undefined) return row[lat] && row[lon] ? { lat: Number(row[lat].value), lon: Number(row[lon].value) } : null;
  const match = WKT_POINT.exec(row[wkt]?.value ?? "");
  if (match === null) return null;
  // GeoSPARQL: longitude comes first (CRS84, the default); EPSG 4326 has latitude first.
  const [first, second] = [Number(match[2]), Number(match[3])];
  return (match[1] ?? "").includes("EPSG/0/4326") ? { lat: first, lon: second } : { lon: first, lat: second };
}
