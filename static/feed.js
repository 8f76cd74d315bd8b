// A feed over EventSource with its state: connecting, live, reconnecting, ended.
// The browser resumes by itself with Last-Event-ID; ids that were seen are skipped, so that nothing shows twice.

const KINDS = ["insert", "delete", "answer", "progress", "reset", "error"];

/**
 * Opens a feed. `onEvent({kind, id, data})` gets parsed data, `onState(state, explanation)` each change of state.
 * Gives a function that closes it.
 */
export function openFeed(path, { onEvent, onState, kinds = KINDS }) {
  const source = new EventSource(path);
  let seen = 0;
  onState("connecting", "The feed is being opened.");
  source.onopen = () => onState("live", "Events are shown as they come.");
  source.onerror = (event) => {
    if (event instanceof MessageEvent) return;
    if (source.readyState === EventSource.CLOSED) onState("ended", "The feed has ended or was refused.");
    else onState("reconnecting", "The connection was lost; the browser tries again and resumes after the last event seen.");
  };
  for (const kind of kinds) {
    source.addEventListener(kind, (event) => {
      if (!(event instanceof MessageEvent)) return;
      const id = kind === "progress" || kind === "reset" || event.lastEventId === "" ? null : Number(event.lastEventId);
      if (kind === "reset") seen = 0;
      if (id !== null && id <= seen) return;
      if (id !== null) seen = id;
      let data;
      try {
        data = JSON.parse(event.data);
      } catch {
        data = { detail: event.data };
      }
      onEvent({ kind, id, data });
    });
  }
  const close = () => source.close();
  window.addEventListener("pagehide", close);
  return close;
}
