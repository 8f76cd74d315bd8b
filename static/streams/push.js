// The form that pushes elements to a stream.

import { call } from "../base/api.js";
import { copyButton, curl } from "../base/curl.js";
import { byId, el, put } from "../base/dom.js";
import { count, counted } from "../base/format.js";
import { clearProblem, showProblem } from "../base/problem.js";
import { Editor } from "../editor/editor.js";
import { streamPath } from "./path.js";

const XSD_DECIMAL = "http://www.w3.org/2001/XMLSchema#decimal";
const TYPES = {
  "text/turtle": `PREFIX ex: <http://example.org/>\nex:sensor1 ex:value 21.5 .`,
  "application/trig": `PREFIX ex: <http://example.org/>\nex:e1 { ex:sensor1 ex:value 21.5 }\nex:e2 { ex:sensor2 ex:value 19.0 }`,
  "application/n-triples": `<http://example.org/sensor1> <http://example.org/value> "21.5"^^<${XSD_DECIMAL}> .`,
  "application/n-quads": `<http://example.org/sensor1> <http://example.org/value> "21.5"^^<${XSD_DECIMAL}> <http://example.org/e1> .`,
  "application/ld+json": `{\n  "@context": {"ex": "http://example.org/"},\n  "@id": "ex:sensor1",\n  "ex:value": 21.5\n}`,
  "application/x-ndjson": `{"at": 1357455600000, "data": "<http://example.org/sensor1> <http://example.org/value> \\"21.5\\" ."}`,
};
const RECORDS = {
  "application/json": `{"sensor": "a", "value": 21.5}`,
  "text/csv": `sensor,value\na,21.5`,
};

/** Work the form; `then` follows a push that was taken. A mapped stream takes records first. */
export function pushForm(then, mapped = false) {
  const types = mapped ? { ...RECORDS, ...TYPES } : TYPES;
  const editor = new Editor(byId("push-editor"), { onRun: () => push(), atFocus: true });
  const field = (id) => byId(`push-${id}`);

  function request() {
    const parameters = {};
    if (field("at").value.trim()) parameters.at = field("at").value.trim();
    if (field("each").checked) parameters.each = "triple";
    if (field("partial").checked) parameters.partial = "true";
    if (field("wait").checked) parameters.wait = "true";
    return ["POST", streamPath(field("stream").value.trim(), "", parameters), { body: editor.text, type: field("type").value }];
  }

  async function push() {
    clearProblem(field("problem"), editor);
    put(byId("receipt"));
    try {
      const { data } = await call(...request());
      put(byId("receipt"), el("p", { class: "notice notice-good" }, receiptText(data)));
      await then();
    } catch (problem) {
      showProblem(field("problem"), problem, editor);
    }
  }

  put(field("type"), Object.keys(types).map((type) => el("option", { value: type }, type)));
  editor.text = types[field("type").value];
  field("type").addEventListener("change", (event) => {
    if (Object.values(types).includes(editor.text) || editor.text.trim() === "") editor.text = types[event.target.value];
  });
  byId("push").addEventListener("submit", (event) => {
    event.preventDefault();
    push();
  });
  field("now").addEventListener("click", () => (field("at").value = String(Date.now())));
  field("now").after(copyButton(() => curl(...request())));
  return { focus: () => editor.focus() };
}

function receiptText(receipt) {
  const bad = (receipt.bad || []).length;
  return [`${counted(receipt.accepted, "element")} accepted on ${receipt.stream}`,
    receipt.first_seq === null ? null : `sequence ${receipt.first_seq} to ${receipt.last_seq}`,
    receipt.late ? `${count(receipt.late)} late` : null, receipt.skipped ? `${count(receipt.skipped)} without a triple` : null,
    bad ? `${count(bad)} refused` : null].filter(Boolean).join(", ");
}
