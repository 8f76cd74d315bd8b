// Prefixes that shorten IRIs where no query text declares any.

import { call } from "./api.js";
import { prefixesOf } from "./terms.js";

/** The well-known prefixes and those that the server stores; without an answer of the server, the well-known ones. */
export async function serverPrefixes() {
  const prefixes = prefixesOf();
  try {
    for (const { prefix, uri } of (await call("GET", "/prefixes")).data) prefixes[prefix] = uri;
  } catch {
    // Without the server's prefixes names are longer.
  }
  return prefixes;
}
