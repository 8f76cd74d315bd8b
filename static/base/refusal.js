// Why the sender may not do something: the server says it with each view.

/** Why the sender may not send requests that need a role, read, push, write or admin; null if it may. */
export function refusalOf(role) {
  return document.body.dataset[`${role}Refusal`] ?? null;
}
