// A link that holds a query with its options: behind the address's #, which no server ever gets.

/** The address of this view with a registration in it. */
export function linkOf(registration) {
  return `${location.origin}${location.pathname}#${new URLSearchParams({ registration: JSON.stringify(registration) })}`;
}

/** The registration of the address, or null. */
export function sharedRegistration() {
  const text = new URLSearchParams(location.hash.slice(1)).get("registration");
  if (text === null) return null;
  try {
    const registration = JSON.parse(text);
    return registration !== null && typeof registration.query === "string" ? registration : null;
  } catch {
    return null;
  }
}

/** Put a text on the clipboard; false where the browser does not let us. */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
