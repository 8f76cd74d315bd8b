// A feed over EventSource with its state: connecting, live, reconnecting, ended.
// The browser resumes by itself with Last-Event-ID; ids that were seen are skipped, so that nothing shows twice.
// EventSource gives up for good at any answer but 200, such as the 502 of a proxy while the server restarts:
// the page then asks for the feed's head until it is there, and opens a new EventSource after the last id.
// A hidden page closes its feed and resumes when it is seen again: browsers open only six connections to a server.

import { call } from "../base/api.js";
import { byId, setText } from "../base/dom.js";
import { at } from "../base/root.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
const KINDS = ["insert", "delete", "answer", "resolved", "progress", "reset", "error"];

/**
 * Opens a feed. `pathAfter(id)` gives its address behind an event, or from the beginning for null;
 * `onEvent({kind, id, data})` gets parsed data, `onState(state, explanation)` each change of state.
 */
export function openFeed(pathAfter, { onEvent, onState, kinds = KINDS }) {
  let source = null;
  let seen = null;
  let timer = null;
  let waitMs = FIRST_WAIT_MS;

  const receive = (kind, event) => {
    if (!(event instanceof MessageEvent)) return;
    // EventSource repeats the last id on events that have none of their own.
    const id = kind === "progress" || kind === "reset" || event.lastEventId === "" ? null : Number(event.lastEventId);
    if (kind === "reset") seen = null;
    if (id !== null) {
      if (seen !== null && id <= seen) return;
      seen = id;
    }
    onEvent({ kind, id, data: JSON.parse(event.data) });
  };

  const open = () => {
    source = new EventSource(at(pathAfter(seen)));
    onState("connecting", "The feed is being opened.");
    source.onopen = () => {
      waitMs = FIRST_WAIT_MS;
      onState("live", "Events are shown as they come.");
    };
    source.onerror = (event) => {
      if (event instanceof MessageEvent) return;
      if (source.readyState === EventSource.CLOSED) openLater();
      else onState("reconnecting", "The connection was lost; the browser tries again and resumes after the last event seen.");
    };
    for (const kind of kinds) source.addEventListener(kind, (event) => receive(kind, event));
  };

  const openLater = () => {
    onState("reconnecting", "The server was not reached; the page tries again and resumes after the last event seen.");
    timer = setTimeout(openIfThere, waitMs);
    waitMs = Math.min(2 * waitMs, LONGEST_WAIT_MS);
  };

  const openIfThere = async () => {
    const mine = timer;
    let there;
    try {
      there = (await call("HEAD", pathAfter(seen), { accept: "text/event-stream" })).status === 200;
    } catch ({ status }) {
      there = status >= 400 && status < 500 && status !== 429 ? false : null;
    }
    if (timer !== mine) return; // the page was hidden meanwhile
    timer = null;
    if (there === null) openLater();
    else if (there) open();
    else onState("ended", "The feed has ended or was refused.");
  };

  const follow = () => {
    if (document.hidden) {
      source?.close();
      clearTimeout(timer);
      source = timer = null;
    } else if (source === null) {
      open();
    }
  };
  document.addEventListener("visibilitychange", follow);
  window.addEventListener("pagehide", () => source?.close());
  follow();
}

/** Show the state of a feed in `#feed-state`, with the explanation as its tooltip. */
export function showFeedState(name, explanation) {
  const place = byId("feed-state");
  place.dataset.state = name;
  place.title = explanation;
  setText(place.querySelector("[data-text]"), name);
}
