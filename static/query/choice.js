// Which rows are looked at: a text that they contain, and values that they have, as chips that can be taken away.

import { el, put } from "../base/dom.js";
import { cellTerm } from "../base/table.js";
import { shortText, termText } from "../base/terms.js";

const MOST_VALUES = 100;

/** The choice made with a field for text, a list of values to follow, and clicks on values; `changed()` is called after each change. */
export class Choice {
  constructor({ field, follow, chips }, prefixes, changed) {
    this.prefixes = prefixes;
    this.changed = changed;
    this.chips = chips;
    this.text = "";
    this.keys = [];
    field.addEventListener("input", () => {
      this.text = field.value.trim().toLowerCase();
      changed();
    });
    follow.addEventListener("change", () => {
      const picked = this.offered?.[Number(follow.value)];
      follow.value = "";
      if (picked) this.follow(picked);
    });
    this.list = follow;
  }

  /** Whether anything is left out. */
  get narrow() {
    return this.text !== "" || this.keys.length > 0;
  }

  matches(row) {
    return this.keys.every(({ name, term }) => row[name] !== undefined && termText(row[name]) === termText(term))
      && (this.text === "" || Object.values(row).some((term) => this.holds(term.value) || this.holds(shortText(term, this.prefixes))));
  }

  /** Whether a text that is no row has the text that is looked for; it has no values to follow. */
  matchesText(text) {
    return this.keys.length === 0 && this.holds(text);
  }

  holds(value) {
    return this.text === "" || String(value).toLowerCase().includes(this.text);
  }

  /** Look only at rows with this value. */
  follow({ name, term }) {
    this.keys = [...this.keys.filter((key) => key.name !== name), { name, term }];
    this.showChips();
  }

  showChips() {
    put(this.chips, this.keys.map((key) => {
      const text = `?${key.name} = ${shortText(key.term, this.prefixes)}`;
      return el("button", { type: "button", class: "chip", "aria-label": `Take away ${text}`, title: termText(key.term), on: { click: () => {
        this.keys = this.keys.filter((other) => other !== key);
        this.showChips();
        this.list.focus();
      } } }, text, el("span", { "aria-hidden": "true" }, " ✕"));
    }));
    this.changed();
  }

  /** Follow a value of a table when it is clicked. */
  listen(table) {
    table.classList.add("choosable");
    table.addEventListener("click", (event) => {
      const cell = event.target.closest("td");
      const found = cell && event.target.closest(".term") && !event.target.closest("button") && String(getSelection()) === "" ? cellTerm(cell) : null;
      if (found?.term) this.follow(found);
    });
  }

  /** Offer the values of these rows, for those who use no mouse; columns with numbers only are not keys. */
  offer(rows, names) {
    this.offered = [];
    const groups = names.map((name) => {
      const values = new Map(rows.filter((row) => row[name]).map((row) => [termText(row[name]), row[name]]));
      const terms = [...values.values()].slice(0, MOST_VALUES);
      return el("optgroup", { label: `?${name}` }, terms.map((term) => el("option", { value: this.offered.push({ name, term }) - 1 }, shortText(term, this.prefixes))));
    });
    put(this.list, el("option", { value: "" }, "Follow a value …"), groups);
  }
}
