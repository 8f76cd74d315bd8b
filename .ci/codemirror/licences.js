// Writes the versions and licences of what the bundle is made of beside it. Run by `npm run build`.

import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";

const folder = "../../static/vendor/codemirror";
const found = Object.entries(JSON.parse(readFileSync("package-lock.json")).packages)
  .filter(([path]) => path.startsWith("node_modules/") && !/(^|\/)@?esbuild(\/|$)/.test(path.slice("node_modules/".length)))
  .map(([path, { version, license }]) => ({ path, name: path.slice("node_modules/".length), version, license }))
  .sort((a, b) => (a.name < b.name ? -1 : 1));
const texts = new Map();
for (const { path, name, version, license } of found) {
  const file = existsSync(path) && readdirSync(path).find((each) => /^licen[cs]e/i.test(each));
  if (!file) throw new Error(`${name} has no licence file`);
  const text = readFileSync(`${path}/${file}`, "utf8").trim();
  texts.set(text, [...(texts.get(text) || []), `${name} ${version} (${license})`]);
}
writeFileSync(`${folder}/LICENSE`, [...texts].map(([text, names]) => `${names.join("\n")}\n\n${text}\n`).join(`\n${"-".repeat(72)}\n\n`));
