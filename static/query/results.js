// The results of one query: its feed as it comes, its answer, and the pictures and alerts that fit its columns.

import { call, Problem, queryPath } from "../base/api.js";
import { byId, setText } from "../base/dom.js";
import { showProblem } from "../base/problem.js";
import { tabs } from "../base/tabs.js";
import { openFeed, showFeedState } from "../feeds/feed.js";
import { LiveTable, showAnswer } from "../feeds/live.js";
import { listenForWhy } from "../feeds/why.js";
import { Alerts, drawAlerts } from "./alerts.js";
import { Choice } from "./choice.js";
import { listenToMenu } from "./download.js";
import { Pictures } from "./pictures.js";
import { FeedRows } from "./rows.js";

const SHOWN_AT_FIRST = 50;
const PICTURE_EVERY_MS = 500;
const ANSWER_EVERY_MS = 1000;

/** Show the results of `query`, its first description, as they come; gives a function that looks at the answer again. */
export function showResults(name, query, prefixes) {
  const places = { field: byId("filter"), follow: byId("follow"), chips: byId("chosen") };
  const choice = new Choice(places, prefixes, () => {
    live.drawAll();
    drawShown();
    if (answer) showAnswer(byId("answer"), answer, prefixes, choice);
  });
  const live = new LiveTable(byId("live"), prefixes, choice);
  const alerts = new Alerts(query.once_per);
  // Without deletions nothing says when an alert is over.
  const ends = query.output === "changes";
  const pictures = new Pictures(prefixes, choice);
  const isGraph = () => live.events.some(({ data }) => "quads" in data) || (answer !== null && "quads" in answer);
  let answer = null;
  let lastText = "";
  let askedAt = -Infinity;
  let drawnAt = -Infinity;
  let due = null;
  let shownTab = "tab-events";

  const drawShown = () => {
    const from = new FeedRows(live.events, answer);
    pictures.fit(from);
    if (shownTab === "tab-alerts") drawAlerts(byId("alerts"), alerts, prefixes, choice, ends || alerts.resolves);
    if (shownTab === "tab-chart") pictures.drawChart(from);
    if (shownTab === "tab-map") pictures.drawMap(from);
    drawnAt = performance.now();
  };

  /** Draw in a frame, at most twice a second. */
  const drawSoon = () => {
    if (due !== null || live.held) return;
    due = setTimeout(() => requestAnimationFrame(() => {
      due = null;
      if (!live.held) drawShown();
    }), Math.max(0, drawnAt + PICTURE_EVERY_MS - performance.now()));
  };

  const askAnswer = async () => {
    if (shownTab === "tab-events" || shownTab === "tab-alerts" || live.held || performance.now() - askedAt < ANSWER_EVERY_MS) return;
    askedAt = performance.now();
    try {
      const found = await call("GET", queryPath(name, "/results"), { accept: "application/sparql-results+json, application/json;q=0.9" });
      if (found.text === lastText || !found.data) return;
      lastText = found.text;
      answer = found.data;
      if (shownTab === "tab-answer") showAnswer(byId("answer"), answer, prefixes, choice);
      drawSoon();
    } catch (problem) {
      showProblem(byId("answer"), problem);
    }
  };

  const shown = () => {
    if (shownTab !== "tab-events" && answer) {
      return "quads" in answer ? { quads: answer.quads } : { variables: answer.head.vars, rows: (answer.results?.bindings ?? []).filter((row) => choice.matches(row)).map((row) => ({ row })) };
    }
    if (isGraph()) return { quads: live.events.map(({ data }) => data.quads ?? "").filter((quads) => choice.matchesText(quads)).join("") };
    return { variables: live.variables ?? [], rows: live.events.flatMap(({ id, kind, data }) =>
      (data.results?.bindings ?? []).filter((row) => choice.matches(row)).map((row) => ({ id, event: kind, at: data.at, row }))) };
  };

  /** Recent events first: the feed is opened a little before its newest event. */
  const feedPath = (seen) => {
    const { earliest_id: earliest, last_id: newest } = query.feed || {};
    const start = (newest || 0) - SHOWN_AT_FIRST;
    // The id before the earliest may be of an earlier epoch; 0 is always the oldest kept event.
    return queryPath(name, `/results?from=${seen ?? (start < (earliest || 1) ? 0 : start)}`);
  };

  const onEvent = (event) => {
    byId("no-events").hidden = true;
    live.add(event);
    alerts.add(event);
    askAnswer();
    drawSoon();
  };

  byId("tab-alerts").hidden = !ends && !query.once_per;
  listenForWhy(byId("live"), name, prefixes);
  choice.listen(byId("live"));
  choice.listen(byId("answer"));
  choice.listen(byId("alerts"));
  for (const moment of ["focus", "pointerdown"]) byId("follow").addEventListener(moment, () => pictures.offer(new FeedRows(live.events, answer)));
  pictures.onChange(drawShown);
  tabs([...document.querySelectorAll("#result-tabs [role=tab]")], (button) => {
    shownTab = button.id;
    byId("clear").hidden = shownTab !== "tab-events";
    askedAt = -Infinity;
    askAnswer();
    drawShown();
  });
  byId("clear").addEventListener("click", () => live.clear());
  byId("freeze").addEventListener("click", (event) => {
    const held = event.currentTarget.getAttribute("aria-pressed") !== "true";
    event.currentTarget.setAttribute("aria-pressed", String(held));
    setText(event.currentTarget, held ? "Go on" : "Hold");
    live.hold(held);
    if (!held) drawShown();
  });
  listenToMenu(byId("take"), name, { shown, isGraph, onProblem: (problem) => showProblem(byId("problem"), problem instanceof Error ? problem : new Problem({})) });
  openFeed(feedPath, { onEvent, onState: showFeedState });
  return askAnswer;
}
