// The words of the languages: for colours and completion. The server's parser is the judge of both.

const words = (text) => text.trim().split(/\s+/);

const COMMON = words(`SELECT CONSTRUCT ASK WHERE FROM NAMED PREFIX BASE AS DISTINCT REDUCED OPTIONAL UNION MINUS GRAPH SERVICE
  SILENT FILTER BIND VALUES UNDEF EXISTS NOT IN GROUP BY HAVING ORDER ASC DESC LIMIT OFFSET SEPARATOR true false`);
const UPDATE = words(`INSERT DELETE DATA WITH USING LOAD CLEAR DROP CREATE ADD MOVE COPY TO INTO DEFAULT ALL`);
const FUNCTIONS = words(`COUNT SUM MIN MAX AVG SAMPLE GROUP_CONCAT STR LANG DATATYPE BOUND IRI BNODE ABS CEIL FLOOR ROUND CONCAT
  STRLEN UCASE LCASE CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER SUBSTR REPLACE REGEX YEAR MONTH DAY HOURS MINUTES SECONDS
  TIMEZONE TZ ADJUST NOW COALESCE IF sameTerm isIRI isBlank isLiteral isNumeric STRDT STRLANG`);

/** What each dialect adds to SPARQL's words. */
const STREAMING = {
  cqels: words("STREAM NOW RANGE TO SLIDE TUMBLING LATEST BY WITHIN SESSION PARTITION BOUNDS AT TRIPLES ALL ONCE PER UNTIL GONE RESOLVED EMIT EVERY"),
  rspql: words("REGISTER ISTREAM DSTREAM RSTREAM WINDOW ON RANGE TO STEP TUMBLING SLIDING ELEMENTS LATEST BY WITHIN SESSION PARTITION BOUNDS AT ONCE PER UNTIL GONE RESOLVED EMIT EVERY"),
  csparql: words("REGISTER QUERY STREAM COMPUTED EVERY RANGE TO STEP TUMBLING SESSION TRIPLES ON ONCE PER UNTIL GONE RESOLVED EMIT"),
  sparql: [],
  update: [],
};

const STREAM_WORDS = new Set([...Object.values(STREAMING).flat(), "LATENESS", "REPORT"]);
const WORDS = new Set([...COMMON.map((word) => word.toUpperCase()), ...UPDATE, "DESCRIBE", "VERSION", "A"]);

/** The kind of a word, by itself and by the character behind it. */
export function wordKind(text, after) {
  const word = text.toUpperCase();
  if (STREAM_WORDS.has(word) && after !== "(") return "stream";
  if (WORDS.has(word)) return "keyword";
  return after === "(" ? "function" : "word";
}

/** The words to offer in a dialect, as {words, streaming, functions}; all of them where it is not known. */
export function wordsOf(dialect) {
  const streaming = dialect in STREAMING ? STREAMING[dialect] : [...new Set(Object.values(STREAMING).flat())];
  const plain = dialect === "update" || dialect === "sparql" ? [...COMMON, ...(dialect === "update" ? UPDATE : ["DESCRIBE"])] : COMMON;
  return { words: plain.filter((word) => !streaming.includes(word)), streaming, functions: FUNCTIONS.filter((word) => !streaming.includes(word)) };
}

/** The dialect that a text seems to be in: only what to offer depends on it. */
export function dialectOf(text) {
  if (/\bFROM\s+NAMED\s+WINDOW\b|\bWINDOW\s+[<:\w]|\bREGISTER\s+[IDR]STREAM\b/i.test(text)) return "rspql";
  if (/\bFROM\s+(?:NAMED\s+)?STREAM\b|\bREGISTER\s+(?:QUERY|STREAM)\b/i.test(text)) return "csparql";
  if (/\bSTREAM\s+[<?$:\w]/i.test(text)) return "cqels";
  return null;
}
