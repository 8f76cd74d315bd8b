// The declaration of a stream: its options and its mapping, shown, changed, and tried on sample records before that.

import { call } from "../base/api.js";
import { copyButton, curl } from "../base/curl.js";
import { announce, byId, el, put } from "../base/dom.js";
import { clearProblem, showProblem } from "../base/problem.js";
import { streamPath } from "./path.js";
import { quadsNode } from "./quads.js";

const OPTIONS = ["lateness", "late", "idle_timeout", "clock", "retention", "timestamp_property"];
const FIRST = {
  construct: `PREFIX ex: <http://example.org/>\nCONSTRUCT { ?s ex:value ?value }\nWHERE { BIND(IRI(CONCAT(STR(ex:), ?sensor)) AS ?s) }`,
  jsonld: `{"@context": {\n  "@vocab": "http://example.org/",\n  "sensor": "@id",\n  "@base": "http://example.org/"\n}}`,
};

/** The form of a stream's declaration; `then` follows a change. */
export class Declaration {
  constructor(stream, prefixes, then) {
    this.stream = stream;
    this.prefixes = prefixes;
    this.then = then;
    byId("declare").addEventListener("submit", (event) => {
      event.preventDefault();
      this.save();
    });
    byId("mapping-kind").addEventListener("change", () => this.showKind());
    byId("try").addEventListener("click", () => this.tryRecords());
    byId("save").after(copyButton(() => curl("PUT", streamPath(stream.name), { json: this.members() })));
    this.fill(stream);
  }

  /** Fill the fields with what is declared. */
  fill(stream) {
    for (const option of OPTIONS) byId(`option-${option}`).value = stream[option] ?? "";
    byId("option-stamping").value = stream.stamping ?? "";
    byId("option-quoted_asserted").checked = stream.quoted_asserted;
    const { mapping } = stream;
    byId("mapping-kind").value = mapping === null ? "" : mapping.jsonld ? "jsonld" : "construct";
    if (mapping !== null) {
      byId("mapping-text").value = mapping.construct ?? JSON.stringify(mapping.jsonld, null, 2);
      for (const member of ["format", "time", "time_format"]) byId(`mapping-${member}`).value = mapping[member] ?? "";
      byId("mapping-header").checked = mapping.header ?? true;
    }
    this.showKind();
  }

  showKind() {
    const kind = byId("mapping-kind").value;
    const text = byId("mapping-text");
    byId("mapping-fields").hidden = kind === "";
    byId("option-stamping").disabled = kind !== "";
    if (kind !== "" && (text.value.trim() === "" || Object.values(FIRST).includes(text.value))) text.value = FIRST[kind];
  }

  /** The mapping as the fields say; throws where its JSON is wrong. */
  mapping() {
    const kind = byId("mapping-kind").value;
    if (kind === "") return undefined;
    const text = byId("mapping-text").value;
    const mapping = { [kind]: kind === "jsonld" ? JSON.parse(text) : text };
    for (const member of ["format", "time", "time_format"]) {
      const value = byId(`mapping-${member}`).value.trim();
      if (value) mapping[member] = value;
    }
    if (!byId("mapping-header").checked) mapping.header = false;
    return mapping;
  }

  members() {
    const members = { iri: this.stream.iri, quoted_asserted: byId("option-quoted_asserted").checked, mapping: this.mapping() };
    for (const option of OPTIONS) {
      const value = byId(`option-${option}`).value.trim();
      if (value) members[option] = value;
    }
    if (this.stream.shapes) Object.assign(members, { shapes: this.stream.shapes, on_violation: this.stream.on_violation });
    if (this.stream.self_contained) members.self_contained = true;
    // A mapping says by itself where times come from.
    if (members.mapping === undefined && byId("option-stamping").value) members.stamping = byId("option-stamping").value;
    return members;
  }

  async tryRecords() {
    const place = byId("declare-problem");
    clearProblem(place);
    put(byId("tried"));
    try {
      const text = byId("mapping-sample").value.trim();
      const { data } = await call("POST", "/streams:map", { json: { mapping: this.mapping(), records: recordsOf(text) }, accept: "application/n-quads" });
      put(byId("tried"), data === "" ? el("p", { class: "notice" }, "These records give no triple.")
        : [el("p", { class: "muted" }, "What would enter; nothing has:"), quadsNode(data, this.prefixes, 50)]);
    } catch (problem) {
      showProblem(place, named(problem));
    }
  }

  async save() {
    const place = byId("declare-problem");
    clearProblem(place);
    try {
      const { data } = await call("PUT", streamPath(this.stream.name), { json: this.members() });
      announce("The declaration is saved; it holds for what comes from now on.");
      this.fill(data);
      await this.then(data);
    } catch (problem) {
      showProblem(place, named(problem));
    }
  }
}

/** Records of a sample: JSON as it is, an object a line, else the text of a CSV file. */
function recordsOf(text) {
  try {
    const value = JSON.parse(text);
    return Array.isArray(value) ? value : [value];
  } catch {
    const lines = text.split("\n").filter((line) => line.trim() !== "");
    return lines.length > 0 && lines.every((line) => line.startsWith("{")) ? lines.map((line) => JSON.parse(line)) : text;
  }
}

function named(problem) {
  return problem instanceof SyntaxError ? { title: "This is no JSON", detail: problem.message } : problem;
}
