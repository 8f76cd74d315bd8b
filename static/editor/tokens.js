// Splits a query text into coloured pieces. It colours, it does not judge: the server's parser does that.

const STREAM_WORDS = new Set(["STREAM", "WINDOW", "RANGE", "SLIDE", "STEP", "TRIPLES", "ELEMENTS", "TUMBLING", "NOW", "ALL",
  "REGISTER", "ISTREAM", "RSTREAM", "DSTREAM", "COMPUTED", "EVERY", "ON", "LATENESS", "REPORT"]);
const WORDS = new Set(["SELECT", "CONSTRUCT", "ASK", "DESCRIBE", "WHERE", "FROM", "NAMED", "PREFIX", "BASE", "VERSION", "AS",
  "DISTINCT", "REDUCED", "OPTIONAL", "UNION", "MINUS", "GRAPH", "SERVICE", "SILENT", "FILTER", "BIND", "VALUES", "UNDEF",
  "EXISTS", "NOT", "IN", "GROUP", "BY", "HAVING", "ORDER", "ASC", "DESC", "LIMIT", "OFFSET", "INSERT", "DELETE", "DATA",
  "WITH", "USING", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "TO", "INTO", "DEFAULT", "QUERY", "SEPARATOR",
  "TRUE", "FALSE", "A"]);
const PIECES = new RegExp([
  "(?<comment>#[^\\n]*)",
  "(?<string>\"\"\"[\\s\\S]*?(?:\"\"\"|$)|'''[\\s\\S]*?(?:'''|$)|\"(?:[^\"\\\\\\n]|\\\\.)*\"?|'(?:[^'\\\\\\n]|\\\\.)*'?)",
  "(?<iri><[^<>\"{}|^`\\\\\\s]*>)",
  "(?<parameter>\\$[\\w ]+\\$)",
  "(?<variable>[?$][\\p{L}\\p{N}_]+)",
  "(?<name>(?:_|[\\p{L}][\\p{L}\\p{N}_.-]*)?:(?:[\\p{L}\\p{N}_:%](?:[\\p{L}\\p{N}_.:%-]*[\\p{L}\\p{N}_:%-])?)?)",
  "(?<tag>@[A-Za-z][\\w-]*)",
  "(?<number>\\d+(?:\\.\\d+)?(?:[eE][+-]?\\d+)?(?:(?:ns|ms|[smhd])\\b)?)",
  "(?<word>[\\p{L}_][\\p{L}\\p{N}_]*)",
].join("|"), "gu");

/** Pieces as {text, kind, start}; kind is "" for what has no colour. They cover the whole text, in order. */
export function tokens(text) {
  const pieces = [];
  let end = 0;
  for (const match of text.matchAll(PIECES)) {
    if (match.index > end) pieces.push({ text: text.slice(end, match.index), kind: "", start: end });
    pieces.push({ text: match[0], kind: kindOf(match), start: match.index });
    end = match.index + match[0].length;
  }
  if (end < text.length) pieces.push({ text: text.slice(end), kind: "", start: end });
  return pieces;
}

function kindOf(match) {
  const [kind] = Object.entries(match.groups).find(([, value]) => value !== undefined);
  if (kind !== "word") return kind;
  const word = match[0].toUpperCase();
  const after = match.input[match.index + match[0].length];
  if (STREAM_WORDS.has(word) && after !== "(") return "stream";
  if (WORDS.has(word)) return "keyword";
  return after === "(" ? "function" : "word";
}
