// The answer to one query in the SPARQL view: a table, and the chart and the map that fit its columns.

import { byId } from "../base/dom.js";
import { showBindings } from "../base/table.js";
import { tabs } from "../base/tabs.js";
import { Pictures } from "./pictures.js";
import { AnswerRows } from "./rows.js";

const TABS = ["tab-answer", "tab-chart", "tab-map"];

/** Shows answers in the panes of the page; a picture that fits the next answer, too, stays chosen. */
export class AnswerView {
  constructor() {
    this.pictures = new Pictures({}, null);
    this.rows = null;
    this.shown = TABS[0];
    this.choose = tabs(TABS.map(byId), (button) => {
      this.shown = button.id;
      this.draw();
    });
    this.pictures.onChange(() => this.draw());
  }

  /** Show a SELECT result. */
  show(result, prefixes) {
    this.rows = new AnswerRows(result);
    this.pictures.prefixes = prefixes;
    showBindings(byId("result"), result, prefixes);
    this.pictures.fit(this.rows);
    this.offer(result.results.bindings.length > 0);
  }

  /** What is shown is no table: no pictures are offered. */
  clear() {
    this.rows = null;
    this.offer(false);
  }

  offer(pictures) {
    byId("result-tabs").hidden = !pictures || TABS.slice(1).every((id) => byId(id).hidden);
    this.choose(byId(byId("result-tabs").hidden || byId(this.shown).hidden ? TABS[0] : this.shown));
  }

  draw() {
    if (this.shown === "tab-chart") this.pictures.drawChart(this.rows);
    if (this.shown === "tab-map") this.pictures.drawMap(this.rows);
  }
}
