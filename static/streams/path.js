// Where a stream is: in the HTTP interface, and on this page.

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

/** A stream's path in the interface by its name, or by its IRI, with parameters behind it. */
export function streamPath(reference, suffix = "", parameters = {}) {
  const byName = NAME.test(reference);
  const all = new URLSearchParams(byName ? parameters : { iri: reference, ...parameters });
  const path = byName ? `/streams/${encodeURIComponent(reference)}${suffix}` : `/streams${suffix}`;
  return all.size === 0 ? path : `${path}?${all}`;
}

/** The page of one stream. */
export function streamView(iri) {
  return `/ui/streams/one?${new URLSearchParams({ iri })}`;
}
