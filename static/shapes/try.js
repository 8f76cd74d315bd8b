// The form that validates data which is not stored.

import { call } from "../base/api.js";
import { copyButton, curl } from "../base/curl.js";
import { byId, put, setText } from "../base/dom.js";
import { counted } from "../base/format.js";
import { clearProblem, showProblem } from "../base/problem.js";
import { Editor } from "../editor/editor.js";
import { MOST_ROWS, ResultsTable, resultsOf, shownNote } from "./report.js";

const MAX_BYTES = 24 * 1024 * 1024;
const START = "PREFIX ex: <http://example.org/>\nex:anna a ex:Person .";
const OPTIONS = { type: "text/turtle", accept: "text/turtle" };

/** Work the form for the shapes `name`; `prefixes()` gives the known prefixes, `choose(row)` is called for a chosen result. */
export function tryForm(name, prefixes, choose) {
  const editor = new Editor(byId("try-editor"), { onRun: () => validate(), atFocus: true });

  function path() {
    const base = new FormData(byId("try")).get("with");
    return `/shapes:validate?${new URLSearchParams(base === "" ? { shapes: name } : { shapes: name, with: base })}`;
  }

  async function validate() {
    clearProblem(byId("try-problem"), editor);
    put(byId("try-results"));
    setText(byId("tried"), "");
    byId("validate").disabled = true;
    try {
      show((await call("POST", path(), { body: editor.text, maxBytes: MAX_BYTES, ...OPTIONS })).text);
    } catch (problem) {
      showProblem(byId("try-problem"), problem, editor);
    } finally {
      byId("validate").disabled = false;
    }
  }

  function show(report) {
    const results = resultsOf(report, prefixes());
    const note = shownNote(Math.min(results.length, MOST_ROWS), results.length);
    setText(byId("tried"), results.length === 0 ? "The data conforms: no result." : `${counted(results.length, "result")}. ${note}`.trim());
    if (results.length > 0) new ResultsTable(byId("try-results"), "Table of the results of the tried data", choose).show(results, prefixes());
  }

  editor.text = START;
  byId("try").addEventListener("submit", (event) => {
    event.preventDefault();
    validate();
  });
  byId("validate").after(copyButton(() => curl("POST", path(), { body: editor.text, ...OPTIONS })));
}
