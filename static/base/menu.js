// Menus of further steps, which open above everything else. Steps that cannot be undone stand in them.

import { el } from "./dom.js";

/** A button that opens a menu; `key` is unique in the view, `of` names what the steps are done with, `steps` are of `step`. */
export function menu(key, of, ...steps) {
  const id = `menu-${key}`;
  return [
    el("button", { type: "button", class: "quiet", popovertarget: id, "aria-label": `More steps: ${of}` }, "More"),
    el("div", { id, class: "menu-body", popover: "auto" }, steps),
  ];
}

/** One step of a menu; below a step that cannot be done stands the reason. */
export function step(label, { danger = true, ...attributes }) {
  const button = el("button", { type: "button", class: danger ? "danger" : null, ...attributes }, label);
  return [button, button.disabled ? el("p", { class: "sub" }, button.title) : null];
}

/** Let menus open below their buttons, within the window, and close when a step is chosen. */
export function listenToMenus() {
  document.addEventListener("toggle", ({ target, newState }) => {
    if (newState !== "open" || !target.matches(".menu-body[popover]")) return;
    const button = document.querySelector(`[popovertarget="${CSS.escape(target.id)}"]`).getBoundingClientRect();
    const { width, height } = target.getBoundingClientRect();
    const below = button.bottom + 4 + height <= innerHeight || button.top < height;
    target.style.left = `${Math.max(8, Math.min(button.right - width, innerWidth - width - 8))}px`;
    target.style.top = `${below ? button.bottom + 4 : button.top - 4 - height}px`;
  }, true);
  document.addEventListener("click", ({ target }) => target.closest(".menu-body[popover] button")?.closest("[popover]").hidePopover());
  // A menu stands still while the page below it moves, so it closes.
  document.addEventListener("scroll", ({ target }) => {
    if (target instanceof Element && target.closest(".menu-body")) return;
    document.querySelector(".menu-body[popover]:popover-open")?.hidePopover();
  }, { capture: true, passive: true });
}
