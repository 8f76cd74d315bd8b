// Calls every method of the client against the server whose address is the first argument, and prints what it got.
import net from "node:net";

import { Answer, Client, QuadrillError, plainValue } from "quadrill-client";

const server = new Client(process.argv[2]);
const show = (name, value) =>
  console.log(JSON.stringify([name, value], (_, each) => (typeof each === "bigint" ? `${each}n` : each)));
const failure = (call) => call().then(() => null, (error) => {
  if (!(error instanceof QuadrillError)) throw error;
  return { status: error.status, code: error.code, message: error.message, line: error.problem.line ?? null };
});

await server.update('INSERT DATA { <urn:a> <urn:p> 1, 9007199254740993, 2.5, 2e0, true, "x"@en, "1"^^<urn:t> }');
await server.update('INSERT DATA { <urn:b> <urn:t> "2024-05-01T12:00:00+02:00"^^<http://www.w3.org/2001/XMLSchema#dateTime> }');
const values = await server.query("SELECT ?o ?none { <urn:a> <urn:p> ?o OPTIONAL { ?o <urn:q> ?none } } ORDER BY STR(?o)");
show("variables", values.variables);
show("rows", values.rows());
const { o } = (await server.query("SELECT ?o { <urn:b> ?p ?o }")).rows()[0];
show("date", [o instanceof Date, o]);
show("boolean", (await server.query("ASK { <urn:a> ?p ?o }")).boolean);
show("quads", (await server.query("CONSTRUCT { ?s <urn:q> ?o } { ?s <urn:t> ?o }")).quads.startsWith("<urn:b> <urn:q>"));
show("empty", new Answer({}).rows());
show("unbound", plainValue(undefined));

const mapping = { construct: "CONSTRUCT { ?s <urn:v> ?v } WHERE { BIND(IRI(CONCAT('urn:', ?name)) AS ?s) }", time: "at" };
show("stream", (await server.declareStream("readings", { iri: "http://e/s", mapping })).name);
const text = "SELECT ?s ?v { STREAM <http://e/s> [RANGE 10s] { ?s <urn:v> ?v } }";
show("registered", (await server.register(text, { name: "q", output: "changes" })).name);
show("replaced", (await server.register(`${text} `, { name: "q", output: "changes", replace: true })).state);
show("queries", (await server.queries()).map((each) => each.name));
const pushes = [
  await server.push("readings", { name: "a", v: 1, at: new Date(1000) }, { wait: true }),
  await server.push("http://e/s", [{ name: "b", v: 2, at: 2000 }, { name: "c", v: NaN, at: 3000 }], { wait: true }),
  await server.push("readings", "<urn:d> <urn:v> 4 .", { mediaType: "text/turtle", at: new Date(4000), wait: true }),
  await server.push("readings", new TextEncoder().encode("<urn:e> <urn:v> 5 ."), { mediaType: "text/turtle", at: 12000, wait: true }),
];
show("pushes", pushes.map(({ accepted, skipped, waited }) => [accepted, skipped ?? null, waited]));
show("current", (await server.current("q")).rows());
const events = [];
for await (const { id, kind, answer } of server.feed("q", { resume: 0 })) {
  events.push([id, kind, answer.at, answer.rows().map((row) => row.s)]);
  if (events.length === 5) break;
}
show("events", events);
for await (const { id, kind, answer } of server.feed("q", { snapshot: true })) {
  show("snapshot", [id, kind, answer.rows().length]);
  break;
}
const end = new AbortController();
setTimeout(() => end.abort(), 300);
let ended = true;
for await (const _ of server.feed("q", { signal: end.signal })) ended = false;
show("ended", ended);
await server.heartbeat("http://e/s", new Date(60_000));
show("watermark", (await (await server.request("GET", "streams/readings")).json()).watermark);
await server.drop("q");
show("dropped", await failure(() => server.describe("q")));
show("syntax", await failure(() => server.query("SELECT ?s { ?s")));
// A server that answers nothing, and a port where none listens.
const listening = () => new Promise((done) => {
  const made = net.createServer((socket) => setTimeout(() => socket.destroy(), 500));
  made.listen(0, "127.0.0.1", () => done([made, `127.0.0.1:${made.address().port}`]));
});
const [[silent, busy], [closed, away]] = [await listening(), await listening()];
closed.close();
const message = async (address, options) =>
  (await failure(() => new Client(address, options).queries())).message.replaceAll(address, "…");
show("timeout", await message(busy, { timeout: 100 }));
show("away", await message(away));
silent.close();
const wrong = await server.push("readings", "<urn:a> <urn:v> 1 .").then(() => null, (error) => error.name);
show("no media type", wrong);
