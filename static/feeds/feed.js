// A feed over EventSource with its state: connecting, live, reconnecting, ended.
// The browser resumes by itself with Last-Event-ID; ids that were seen are skipped, so that nothing shows twice.
// A hidden page closes its feed and resumes when it is seen again: browsers open only six connections to a server.

import { byId, setText } from "../base/dom.js";

const KINDS = ["insert", "delete", "answer", "progress", "reset", "error"];

/**
 * Opens a feed. `pathAfter(id)` gives its address behind an event, or from the beginning for null;
 * `onEvent({kind, id, data})` gets parsed data, `onState(state, explanation)` each change of state.
 */
export function openFeed(pathAfter, { onEvent, onState, kinds = KINDS }) {
  let source = null;
  let seen = null;

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
    source = new EventSource(pathAfter(seen));
    onState("connecting", "The feed is being opened.");
    source.onopen = () => onState("live", "Events are shown as they come.");
    source.onerror = (event) => {
      if (event instanceof MessageEvent) return;
      if (source.readyState === EventSource.CLOSED) onState("ended", "The feed has ended or was refused.");
      else onState("reconnecting", "The connection was lost; the browser tries again and resumes after the last event seen.");
    };
    for (const kind of kinds) source.addEventListener(kind, (event) => receive(kind, event));
  };

  const follow = () => {
    if (document.hidden) {
      source?.close();
      source = null;
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
