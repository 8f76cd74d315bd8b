// The form that declares a source or a sink: its kind, its name, the members of the kind.

import { call } from "../base/api.js";
import { copyButton, curl, commandBox } from "../base/curl.js";
import { announce, byId, el, put, setText } from "../base/dom.js";
import { refusalOf } from "../base/refusal.js";
import { clearProblem, showProblem } from "../base/problem.js";
import { fieldOf, valueOf } from "./fields.js";

const FIRST = new Set(["stream", "query", "url", "path", "topic", "format", "every"]);
const CHANGES = { create: "It is right, and would be a new one.", change: "It is right, and would change what is there.", same: "It is declared so already." };

/** Works `#declare`; `then` follows a declaration. */
export class Form {
  constructor(then) {
    this.then = then;
    this.kinds = { sources: [], sinks: [] };
    this.shown = {};
    byId("role").addEventListener("change", () => this.showKinds());
    byId("kind").addEventListener("change", () => this.showMembers());
    byId("declare").addEventListener("submit", (event) => {
      event.preventDefault();
      this.send(false);
    });
    byId("check").addEventListener("click", () => this.send(true));
    byId("clear").addEventListener("click", () => this.begin());
    byId("check").after(copyButton(() => curl("PUT", this.path(), { json: this.members() })));
  }

  async load() {
    for (const role of ["sources", "sinks"]) this.kinds[role] = (await call("GET", `/${role}:kinds`)).data.kinds;
    this.showKinds();
  }

  /** An empty form. */
  begin() {
    this.shown = {};
    byId("name").value = "";
    byId("name").readOnly = false;
    byId("role").disabled = false;
    byId("clear").hidden = true;
    setText(byId("save"), "Declare and start");
    put(byId("outcome"));
    this.showMembers();
  }

  /** The form with what is declared. */
  edit(role, declared) {
    byId("role").value = role;
    this.showKinds();
    this.shown = declared;
    byId("kind").value = declared.kind;
    byId("name").value = declared.name;
    byId("name").readOnly = true;
    byId("role").disabled = true;
    byId("clear").hidden = false;
    setText(byId("save"), "Save and start");
    put(byId("outcome"));
    this.showMembers();
    byId("declare").scrollIntoView({ block: "start" });
    byId("kind").focus({ preventScroll: true });
  }

  showKinds() {
    put(byId("kind"), this.kinds[byId("role").value].map(({ kind }) => el("option", { value: kind }, kind)));
    this.showMembers();
  }

  kind() {
    return this.kinds[byId("role").value].find(({ kind }) => kind === byId("kind").value) ?? { members: [] };
  }

  showMembers() {
    const { members, guarantee, needs } = this.kind();
    setText(byId("guarantee"), needs ? `This kind needs a library: pip install '${needs}'.` : guarantee ? `Promised: ${guarantee}.` : "");
    const reason = refusalOf("admin") ?? (needs ? `This kind needs a library: pip install '${needs}'.` : null);
    byId("save").disabled = reason !== null;
    byId("save").title = reason ?? "";
    const first = members.filter((member) => member.required || FIRST.has(member.name));
    const further = members.filter((member) => !first.includes(member));
    put(byId("members"), first.map((member) => fieldOf(member, this.shown[member.name])));
    put(byId("further"), further.map((member) => fieldOf(member, this.shown[member.name])));
    byId("more").hidden = further.length === 0;
    byId("more").open = further.some((member) => this.shown[member.name] !== undefined);
  }

  path() {
    return `/${byId("role").value}/${encodeURIComponent(byId("name").value.trim())}`;
  }

  members() {
    const members = { kind: byId("kind").value };
    for (const member of this.kind().members) members[member.name] = valueOf(member, byId(`member-${member.name}`));
    return members;
  }

  async send(dryRun) {
    const place = byId("declare-problem");
    clearProblem(place);
    put(byId("outcome"));
    try {
      if (byId("name").value.trim() === "") throw { title: "It needs a name", detail: "A name is a letter or digit and up to 127 letters, digits, dots, underscores, hyphens." };
      const { data, status } = await call("PUT", this.path() + (dryRun ? "?dry_run=true" : ""), { json: this.members() });
      if (dryRun) {
        put(byId("outcome"), el("p", { class: "notice notice-good" }, CHANGES[data.change]));
        return;
      }
      announce(`${data.name} is ${status === 201 ? "declared" : "saved"}.`);
      this.begin();
      if (data.kind === "webhook" && data.stream) put(byId("outcome"), el("p", {}, "Records are sent to it so:"), commandBox(sendTo(data)));
      await this.then();
    } catch (problem) {
      showProblem(place, problem);
    }
  }
}

/** How something is sent to a webhook. */
function sendTo(source) {
  const type = source.format ?? "application/n-triples";
  const body = type.includes("json") ? '{"sensor": "a", "value": 21.5}' : "<http://example.org/sensor1> <http://example.org/value> \"21.5\" .";
  const command = curl("POST", `/sources/${source.name}`, { body, type });
  if (!source.secret) return command;
  return `BODY='${body}'\n${command.replace(`'${body}'`, '"$BODY"')} \\\n  -H "X-Hub-Signature-256: sha256=$(printf %s "$BODY" | openssl dgst -sha256 -hmac "$SECRET" -r | cut -d' ' -f1)"`;
}
