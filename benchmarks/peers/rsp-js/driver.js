// One query of RSP-JS over elements of a file; arguments and output as those of the driver of rsp-rs, behind
// them the folder that has node_modules.
"use strict";
const fs = require("fs");
const path = require("path");

const [, , query, fixed, text, streamName, from, given, show, folder] = process.argv;
const modules = path.join(folder, "node_modules");
const { RSPEngine } = require(path.join(modules, "rsp-js"));
const N3 = require(path.join(modules, "n3"));
// It logs every element to the console.
console.log = console.debug = console.info = () => {};

const parsed = (line) => new N3.Parser({ format: "N-Triples" }).parse(line);
const turn = () => new Promise(setImmediate);

async function main() {
  const engine = new RSPEngine(fs.readFileSync(query, "utf8"));
  parsed(fs.readFileSync(fixed, "utf8")).forEach((quad) => engine.addStaticData(quad));
  let pending = 0;
  const execute = engine.r2r.execute.bind(engine.r2r);
  engine.r2r.execute = async (content) => {
    pending += 1;
    const bindings = await execute(content);
    bindings.on("end", () => { pending -= 1; });
    return bindings;
  };
  const quiet = async () => {
    do await turn(); while (pending);
  };
  let rows = [];
  engine.register().on("RStream", (row) => rows.push(row.bindings));
  const stream = engine.getStream(streamName);
  const lines = fs.readFileSync(text, "utf8").trimEnd().split("\n").map((line) => line.split("\t"));
  const first = lines.findIndex(([at]) => Number(at) >= Number(from));
  const timed = lines.slice(first);
  for (const [at, triple] of lines.slice(0, first)) stream.add(parsed(triple)[0], Number(at));
  await quiet();
  rows = [];
  const ready = given === "terms" ? timed.map(([, triple]) => parsed(triple)[0]) : null;
  const cpu = process.cpuUsage();
  const wall = process.hrtime.bigint();
  for (let place = 0; place < timed.length; place++) {
    const [at, triple] = timed[place];
    stream.add(ready ? ready[place] : parsed(triple)[0], Number(at));
    if (place % 100 === 99) await turn();
  }
  await quiet();
  const spent = process.cpuUsage(cpu);
  const seconds = Number(process.hrtime.bigint() - wall) / 1e9;
  const out = [`${timed.length} ${(spent.user + spent.system) / 1e6} ${seconds} ${rows.length}`];
  if (show === "rows") {
    for (const row of rows) {
      const cells = {};
      for (const [variable, term] of row) cells[variable.value] = term.value;
      out.push(JSON.stringify(cells));
    }
  }
  process.stdout.write(out.join("\n") + "\n", () => process.exit(0));
}

main();
