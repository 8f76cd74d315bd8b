// Splits a query text into coloured pieces: whole for listings, line by line for the editor. It colours, it does
// not judge: the server's parser does that.

import { wordKind } from "./keywords.js";

const LONG = /^(?:"""|''')/;
const PARAMETER = /^(["'])\$[\w ]+\$\1$/;
const PIECE = [
  "(?<comment>#[^\\n]*)",
  "(?<string>\"\"\"[\\s\\S]*?(?:\"\"\"|$)|'''[\\s\\S]*?(?:'''|$)|\"(?:[^\"\\\\\\n]|\\\\.)*\"?|'(?:[^'\\\\\\n]|\\\\.)*'?)",
  "(?<iri><[^<>\"{}|^`\\\\\\s]*>)",
  "(?<variable>[?$][\\p{L}\\p{N}_]+)",
  "(?<name>(?:_|[\\p{L}][\\p{L}\\p{N}_.-]*)?:(?:[\\p{L}\\p{N}_:%](?:[\\p{L}\\p{N}_.:%-]*[\\p{L}\\p{N}_:%-])?)?)",
  "(?<tag>@[A-Za-z][\\w-]*)",
  "(?<number>\\d+(?:\\.\\d+)?(?:[eE][+-]?\\d+)?(?:(?:ns|ms|[smhd])\\b)?)",
  "(?<word>[\\p{L}_][\\p{L}\\p{N}_]*)",
].join("|");
const ANYWHERE = new RegExp(PIECE, "gu");
const HERE = new RegExp(PIECE, "uy");

/** The kinds of pieces that have a colour. */
export const KINDS = ["comment", "string", "iri", "parameter", "variable", "name", "tag", "number", "keyword", "stream", "function", "word"];

/** Pieces as {text, kind, start}; kind is "" for what has no colour. They cover the whole text, in order. */
export function tokens(text) {
  const pieces = [];
  let end = 0;
  for (const match of text.matchAll(ANYWHERE)) {
    if (match.index > end) pieces.push({ text: text.slice(end, match.index), kind: "", start: end });
    pieces.push({ text: match[0], kind: kindOf(match), start: match.index });
    end = match.index + match[0].length;
  }
  if (end < text.length) pieces.push({ text: text.slice(end), kind: "", start: end });
  return pieces;
}

/** The tokenizer of the editor, which goes line by line and remembers an open long string. */
export const tokenizer = {
  startState: () => ({ quote: null }),
  copyState: ({ quote }) => ({ quote }),
  token(stream, state) {
    if (state.quote !== null) {
      const close = stream.string.indexOf(state.quote, stream.pos);
      stream.pos = close < 0 ? stream.string.length : close + 3;
      if (close >= 0) state.quote = null;
      return "string";
    }
    if (stream.eatSpace()) return null;
    HERE.lastIndex = stream.pos;
    const match = HERE.exec(stream.string);
    if (match === null) {
      stream.next();
      return null;
    }
    stream.pos += match[0].length;
    const [quote] = LONG.exec(match[0]) || [null];
    if (quote !== null && !(match[0].length >= 6 && match[0].endsWith(quote))) state.quote = quote;
    return kindOf(match);
  },
  languageData: { commentTokens: { line: "#" }, closeBrackets: { brackets: ["(", "[", "{", '"'] } },
};

function kindOf(match) {
  const [kind] = Object.entries(match.groups).find(([, value]) => value !== undefined);
  if (kind === "string" && PARAMETER.test(match[0])) return "parameter";
  return kind === "word" ? wordKind(match[0], match.input[match.index + match[0].length]) : kind;
}
