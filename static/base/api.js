// The public HTTP interface, as this page uses it: one call, one error shape.

import { byId, setText } from "./dom.js";
import { at, go } from "./root.js";

/** A problem document (RFC 9457), or what stands for one when the server could not be asked. */
export class Problem extends Error {
  constructor(members) {
    super(members.detail || members.title || "The request failed.");
    this.status = members.status || 0;
    this.title = members.title || "The request failed";
    this.detail = members.detail || "";
    this.hint = members.hint || null;
    this.line = members.line || null;
    this.column = members.column || null;
    this.excerpt = members.excerpt || null;
    this.construct = members.construct || null;
    this.faults = Array.isArray(members.faults) ? members.faults : [];
    this.members = members;
  }
}

/**
 * One request. `json` is sent as application/json, else `body` with `type`.
 * Gives {status, headers, data}: data is parsed JSON for JSON answers, else text.
 * Throws Problem for every status of 400 and above and when the server is not reached.
 */
export async function call(method, path, options = {}) {
  const { json, body, type, accept = "application/json", signal, maxBytes = Infinity } = options;
  const headers = { Accept: accept };
  if (json !== undefined) headers["Content-Type"] = "application/json";
  else if (type) headers["Content-Type"] = type;
  let response;
  try {
    response = await fetch(at(path), {
      method,
      headers,
      body: json !== undefined ? JSON.stringify(json) : body,
      signal,
      credentials: "same-origin",
    });
  } catch (failure) {
    if (failure.name === "AbortError") throw failure;
    showConnection(false);
    throw new Problem({ title: "The server was not reached", detail: "No answer came from the server. Is it still running?" });
  }
  showConnection(!isOfProxy(response));
  showVersion(response.headers.get("ETag"));
  if (response.status === 401 && location.pathname !== at("/login")) {
    const here = location.pathname + location.search;
    go(`/login?next=${encodeURIComponent(here)}`);
  }
  const text = await readText(response, maxBytes);
  const mediaType = (response.headers.get("Content-Type") || "").split(";")[0].trim();
  const isJson = mediaType === "application/json" || mediaType.endsWith("+json");
  if (!response.ok) throw problemOf(response, isJson, text);
  let data = text;
  if (isJson && text !== "") {
    try {
      data = JSON.parse(text);
    } catch {
      throw new Problem({ status: response.status, title: "The answer is broken off",
        detail: "The server stopped before the answer was complete, for instance at a time-out." });
    }
  }
  return { status: response.status, headers: response.headers, data, text, mediaType };
}

/** Whether a proxy answered in place of the server, whose own errors are problem documents. */
function isOfProxy({ status, headers }) {
  return status >= 502 && status <= 504 && !(headers.get("Content-Type") || "").startsWith("application/problem+json");
}

function problemOf(response, isJson, text) {
  if (isJson) {
    try {
      return new Problem({ status: response.status, ...JSON.parse(text) });
    } catch {
      // Falls through: a broken document is shown as text.
    }
  }
  return new Problem({ status: response.status, title: response.statusText || "The request failed", detail: text.slice(0, 2000) });
}

async function readText(response, maxBytes) {
  if (!response.body || maxBytes === Infinity) {
    try {
      return await response.text();
    } catch {
      throw new Problem({ status: response.status, title: "The answer is broken off",
        detail: "The connection ended before the answer was complete, for instance at a time-out." });
    }
  }
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const parts = [];
  let bytes = 0;
  for (;;) {
    let step;
    try {
      step = await reader.read();
    } catch (failure) {
      if (failure.name === "AbortError") throw failure;
      throw new Problem({ status: response.status, title: "The answer is broken off",
        detail: "The connection ended before the answer was complete, for instance at a time-out." });
    }
    if (step.done) return parts.join("") + decoder.decode();
    bytes += step.value.length;
    if (bytes > maxBytes) {
      await reader.cancel();
      throw new Problem({ title: "The answer is too large to show",
        detail: `The answer is larger than ${Math.round(maxBytes / 1048576)} MB. Download it instead, or add a LIMIT.` });
    }
    parts.push(decoder.decode(step.value, { stream: true }));
  }
}

function showVersion(etag) {
  const match = /^(?:W\/)?"(\d+)"$/.exec(etag || "");
  if (match) setText(byId("store-version"), match[1]);
}

/** Show in the page's header whether the server answers. */
export function showConnection(reached) {
  const place = byId("connection");
  if (!place) return;
  place.dataset.state = reached ? "up" : "down";
  setText(place.querySelector("[data-text]"), reached ? "connected" : "no connection");
}

/** The path of one query of the interface. */
export function queryPath(name, rest = "") {
  return `/queries/${encodeURIComponent(name)}${rest}`;
}
