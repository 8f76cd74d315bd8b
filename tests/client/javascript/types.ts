// Must compile with `tsc --strict`; the lines after @ts-expect-error must not.
import { Answer, Client, FeedEvent, QuadrillError, Term, Value, plainValue } from "quadrill-client";

async function main(): Promise<void> {
  const server = new Client("http://127.0.0.1:7878", { token: "t", timeout: 1000 });
  const answer: Answer = await server.query("ASK {}", { timeout: 5 });
  const rows: Record<string, Value>[] = answer.rows();
  const term: Term | undefined = answer.bindings[0]?.["s"];
  const value: Value = plainValue(term);
  const accepted: number = (await server.push("s", [{ v: 1 }], { at: new Date(), wait: true })).accepted;
  await server.push("s", "<urn:a> <urn:b> 1 .", { mediaType: "text/turtle", each: "triple" });
  await server.register("SELECT …", { name: "q", output: "changes", lateness: "2s" });
  for await (const event of server.feed("q", { resume: 0, signal: AbortSignal.timeout(5) })) {
    const { id, kind }: FeedEvent = event;
    console.log(id, kind === "insert", rows, value, accepted);
  }
  try {
    await server.update("CLEAR ALL");
  } catch (error) {
    if (error instanceof QuadrillError) console.log(error.code.length, error.problem["line"], error.retryAfter);
  }
  // @ts-expect-error: no such output
  await server.register("SELECT …", { output: "all" });
  // @ts-expect-error: a query is a text
  await server.query(5);
  // @ts-expect-error: kinds of events are known
  for await (const event of server.feed("q")) if (event.kind === "update") break;
}

main();
