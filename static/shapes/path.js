// Where shapes are: in the HTTP interface, and on this page.

/** The path of shapes in the interface. */
export function shapesPath(name, rest = "") {
  return `/shapes/${encodeURIComponent(name)}${rest}`;
}

/** The page of shapes. */
export function shapesView(name) {
  return `/ui/shapes/${encodeURIComponent(name)}`;
}
