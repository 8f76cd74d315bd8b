// SPARQL texts that this browser keeps: those that were saved under a name, and the last ones that were run.

const SAVED = "quadrill.sparql.saved";
const HISTORY = "quadrill.sparql.history";
const MOST = 20;

function read(key, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

/** The saved texts, as [name, {mode, text}] by name. */
export function saved() {
  return Object.entries(read(SAVED, {})).sort(([a], [b]) => a.localeCompare(b));
}

export function save(name, entry) {
  localStorage.setItem(SAVED, JSON.stringify({ ...read(SAVED, {}), [name]: entry }));
}

export function forget(name) {
  localStorage.setItem(SAVED, JSON.stringify(Object.fromEntries(saved().filter(([each]) => each !== name))));
}

/** The last texts that were run, as {mode, text}, the newest first. */
export function history() {
  return read(HISTORY, []);
}

export function remember(entry) {
  localStorage.setItem(HISTORY, JSON.stringify([entry, ...history().filter(({ text }) => text !== entry.text)].slice(0, MOST)));
}
