// The fields of a declaration, made from what the server tells of a kind's members. Secrets are never shown again:
// a field that is left empty keeps what is there.

import { el } from "../base/dom.js";
import { count, duration } from "../base/format.js";

export const HIDDEN = "***";
const LISTS = { stream: "streams", query: "queries", format: "formats" };
const LABELS = {
  array: "all events in one request", batch: "records in one push", ca: "trusted certificates", events: "kinds of events", every: "time between two checks",
  files: "files read at a time", format: "format of the records", from: "begin at the", header: "first line names the fields", headers: "headers of the request",
  max_age: "longest age of a part file", max_bytes: "largest size in bytes", max_line: "longest line in bytes", options: "options of the client", path: "file or pattern",
  protocol: "version of MQTT", qos: "quality of service", query: "query", refresh: "time between two looks for partitions", retain: "the broker keeps the last event",
  secret: "key of the signature", send: "messages after connecting", session: "the broker keeps messages for", style: "form of an event", timeout: "time limit of the other side",
  token: "bearer token", tries: "attempts", url: "address", username: "user name",
};

/** A member's name for people. */
function labelOf(name) {
  const words = LABELS[name] ?? name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** One member as a labelled field; `value` is what is declared, `kept` says that a secret is. */
export function fieldOf(member, value) {
  const kept = member.secret && value === HIDDEN;
  const input = inputOf(member, kept ? undefined : value, kept);
  input.name = member.name;
  input.id = `member-${member.name}`;
  input.title = member.help;
  input.required = member.required && !kept;
  input.dataset.kept = kept ? "yes" : "";
  const name = labelOf(member.name);
  const help = el("span", { class: "sub" }, member.help, " ", el("code", { title: "Name in a declaration" }, member.name));
  if (member.form === "flag") return el("label", { class: "check", title: member.help }, input, ` ${name}`, help);
  return el("label", {}, el("span", {}, name, member.required ? el("span", { class: "required" }, " (required)") : null), input, help);
}

function inputOf(member, value, kept) {
  const secret = member.secret && { placeholder: kept ? "kept; type to replace it" : null };
  switch (member.form) {
    case "flag":
      return el("input", { type: "checkbox", checked: value ?? member.default });
    case "choice":
      return el("select", {}, [...(member.required ? [] : [""]), ...member.choices].map((choice) =>
        el("option", { value: choice, selected: choice === (value ?? "") }, choice || `${byDefault(member)} (default)`)));
    case "list":
      return el("textarea", { rows: 2, spellcheck: "false", placeholder: member.choices.length > 0 ? `one a line: ${member.choices.join(", ")}` : "one a line", ...(kept && secret) },
        [value ?? []].flat().join("\n"));
    case "object":
      return el("textarea", { rows: 2, spellcheck: "false", placeholder: "name: value, one a line", ...(kept && secret) },
        Object.entries(value ?? {}).map(([name, each]) => `${name}: ${each}`).join("\n"));
    case "number":
      return el("input", { inputmode: "numeric", autocomplete: "off", placeholder: byDefault(member), value: value ?? null });
    default:
      if (member.secret) return el("input", { type: "password", autocomplete: "new-password", ...secret });
      if (member.help.includes("PEM")) return el("textarea", { rows: 2, spellcheck: "false" }, value ?? "");
      return el("input", { autocomplete: "off", spellcheck: "false", list: LISTS[member.name], placeholder: byDefault(member), value: value ?? null });
  }
}

/** What holds where the field is left empty; times are told in milliseconds. */
function byDefault(member) {
  if (member.default === null || Array.isArray(member.default) || typeof member.default === "object") return null;
  if (typeof member.default !== "number") return String(member.default);
  return member.form === "number" ? count(member.default) : duration(member.default);
}

/** The value of a field as the declaration has it; undefined where it is left out. */
export function valueOf(member, input) {
  if (member.form === "flag") return input.checked === (member.default ?? false) ? undefined : input.checked;
  const text = input.value.trim();
  if (text === "") return input.dataset.kept ? HIDDEN : undefined;
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  switch (member.form) {
    case "number":
      return /^-?\d[\d,]*$/.test(text) ? Number(text.replaceAll(",", "")) : text;
    case "list":
      return lines;
    case "object":
      return Object.fromEntries(lines.map((line) => [line.split(":", 1)[0].trim(), line.slice(line.indexOf(":") + 1).trim()]));
    default:
      return member.secret ? input.value : text;
  }
}
