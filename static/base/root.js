// The addresses of the server's paths, which begin with a path of their own behind some proxies.

/** The path below which the page was loaded, such as `/kg`; empty for the root of the host. */
export const ROOT = new URL("../../..", import.meta.url).pathname.replace(/\/$/, "");

/** The address of a path of the server, such as `/ui/rules`. */
export function at(path) {
  return ROOT + path;
}

/** Open the view at a path of the server in place of this one. */
export function go(path) {
  location.assign(at(path));
}
