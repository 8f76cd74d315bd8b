/** A term of SPARQL 1.1 Query Results JSON; of a quoted triple, `value` has its three terms. */
export interface Term {
  type: "uri" | "bnode" | "literal" | "typed-literal" | "triple";
  value: string | { subject: Term; predicate: Term; object: Term };
  datatype?: string;
  "xml:lang"?: string;
}

/** A plain value: an unbound variable is null, whole numbers beyond 53 bits are bigint, an xsd:dateTime is a Date. */
export type Value = string | number | bigint | boolean | Date | null | { [part: string]: Value };

/** Convert a term to a plain value by its XSD datatype; other terms become their text. */
export function plainValue(term: Term | undefined): Value;

/** Result of a query, or the rows of one event of a feed. */
export class Answer {
  constructor(document: Record<string, unknown>);
  /** The JSON document of the server. */
  readonly document: Record<string, unknown>;
  /** Names of the columns; empty for a graph or a boolean. */
  readonly variables: string[];
  /** Solutions in the form of SPARQL 1.1 Query Results JSON. */
  readonly bindings: Record<string, Term>[];
  /** Result of an ASK query; null for other queries. */
  readonly boolean: boolean | null;
  /** Resulting graph as N-Quads; null for solutions. */
  readonly quads: string | null;
  /** Event time of a feed's answer in milliseconds; null outside feeds. */
  readonly at: number | null;
  /** Version of the store that a feed's answer reflects; null outside feeds. */
  readonly version: number | null;
  /** Return the solutions as objects of plain values. */
  rows(): Record<string, Value>[];
}

/** One event of a continuous query's feed; `id` is null for `progress` and `reset`. */
export interface FeedEvent {
  id: number | null;
  kind: "insert" | "delete" | "answer" | "progress" | "reset" | "error";
  answer: Answer;
}

/** Error that the server refused a request, or that it could not be reached. */
export class QuadrillError extends Error {
  /** HTTP status; null without a response. */
  readonly status: number | null;
  /** Error code of the server, `unreachable` without a response, or `error`. */
  readonly code: string;
  /** Advice how to correct the request, or null. */
  readonly hint: string | null;
  /** Seconds before a retry as the server asks, or null. */
  readonly retryAfter: number | null;
  /** Problem document (RFC 9457), with line, column and excerpt of texts. */
  readonly problem: Record<string, unknown>;
}

export interface ClientOptions {
  /** Bearer token for every request. */
  token?: string;
  /** Milliseconds that a request may take; feeds have no limit. By default 60,000. */
  timeout?: number;
  /** Function in place of the global `fetch`. */
  fetch?: typeof fetch;
}

export interface PushOptions {
  /** Media type of text or bytes. */
  mediaType?: string;
  /** Event time of elements without one: milliseconds since 1970, RFC 3339 or a Date. */
  at?: number | string | Date;
  /** `triple` turns each triple into one element. */
  each?: "triple";
  /** Accept valid elements and list invalid elements in the answer. */
  partial?: boolean;
  /** Answer only after the results of the push are in the feeds. */
  wait?: boolean;
  /** Key by which the server ignores a repetition of this push. */
  idempotencyKey?: string;
}

/** Answer of the server to a push, after the elements are durable. */
export interface PushAnswer {
  stream: string;
  first_seq: number | null;
  last_seq: number | null;
  accepted: number;
  late: number;
  dropped: number;
  durable: boolean;
  skipped?: number;
  waited?: boolean;
  bad?: { element: string; error: string }[];
}

export interface RegisterOptions {
  /** Name of the query; without a name the server chooses one. */
  name?: string;
  /** Replace another query with this name. */
  replace?: boolean;
  output?: "istream" | "dstream" | "rstream" | "changes";
  /** Further members of a registration. */
  [member: string]: unknown;
}

export interface FeedOptions {
  /** Id after which the feed begins, 0 for the oldest stored event; without it new events only. */
  resume?: number;
  /** Begin with an `answer` event that has the current answer. */
  snapshot?: boolean;
  /** Yield `progress` events, too. */
  progress?: boolean;
  /** Ends the feed. */
  signal?: AbortSignal;
}

/** Description of a stream or query, with the members of the HTTP API. */
export type Description = Record<string, any>;

/** Client of one server. Methods reject with a QuadrillError if the server refuses a request or is away. */
export class Client {
  /** `url` is the address of the server, by default http://127.0.0.1:7878; the scheme is optional. */
  constructor(url?: string, options?: ClientOptions);
  /** Address of the server, with a slash at the end. */
  readonly url: string;
  /** Run a one-shot query; `timeout` in seconds can only shorten the server's. */
  query(text: string, options?: { timeout?: number }): Promise<Answer>;
  /** Run a SPARQL update as one commit. */
  update(text: string): Promise<void>;
  /** Declare or change a stream by name or IRI. */
  declareStream(stream: string, members?: Record<string, unknown>): Promise<Description>;
  /** Push RDF as text or bytes, or one record or several records to a stream with a mapping. */
  push(
    stream: string,
    data: string | ArrayBuffer | ArrayBufferView | Record<string, unknown> | Iterable<Record<string, unknown>>,
    options?: PushOptions,
  ): Promise<PushAnswer>;
  /** Advance the event time of a stream without an element. */
  heartbeat(stream: string, at: number | string | Date): Promise<void>;
  /** Register a continuous query. */
  register(text: string, options?: RegisterOptions): Promise<Description>;
  /** Return the descriptions of all continuous queries. */
  queries(): Promise<Description[]>;
  /** Return the description of one continuous query. */
  describe(name: string): Promise<Description>;
  /** Drop a continuous query. */
  drop(name: string): Promise<void>;
  /** Return the current answer of a continuous query. */
  current(name: string): Promise<Answer>;
  /**
   * Yield the events of a query's feed until the query is dropped. After a lost connection the feed resumes after
   * the last event, so that no event is lost or repeated.
   */
  feed(name: string, options?: FeedOptions): AsyncGenerator<FeedEvent, void, undefined>;
  /** Send any request; rejects for an error status. */
  request(
    method: string,
    path: string,
    options?: {
      params?: Record<string, string | number | boolean | Date | undefined>;
      headers?: Record<string, string>;
      body?: BodyInit;
      json?: unknown;
      signal?: AbortSignal;
    },
  ): Promise<Response>;
}
