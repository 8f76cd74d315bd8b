// The header of every view: the entry of the present view stands in sight, and a button changes the theme.

import { byId } from "./dom.js";
import { listenToMenus } from "./menu.js";

const NEXT = { system: "light", light: "dark", dark: "system" };
const NAMES = { system: "as the system", light: "light", dark: "dark" };

/** Bring the present entry of a navigation that scrolls sideways to its middle. */
function showPresent() {
  const entry = document.querySelector(".bar nav [aria-current]");
  if (entry === null) return;
  const nav = entry.closest("nav");
  nav.scrollLeft = entry.offsetLeft - nav.offsetLeft - (nav.clientWidth - entry.offsetWidth) / 2;
}

function nameTheme(button) {
  const theme = document.documentElement.dataset.theme ?? "system";
  const text = `Theme: ${NAMES[theme]}. Change to ${NAMES[NEXT[theme]]}`;
  button.setAttribute("aria-label", text);
  button.title = text;
}

/** Take the next theme; the browser keeps it for this server. */
function changeTheme(button) {
  const root = document.documentElement;
  const theme = NEXT[root.dataset.theme ?? "system"];
  if (theme === "system") delete root.dataset.theme;
  else root.dataset.theme = theme;
  try {
    if (theme === "system") localStorage.removeItem("quadrill.theme");
    else localStorage.setItem("quadrill.theme", theme);
  } catch {
    // The browser keeps nothing for this page: the theme lasts until the next view.
  }
  nameTheme(button);
}

listenToMenus();
showPresent();
window.addEventListener("resize", showPresent);
const theme = byId("theme");
if (theme !== null) {
  nameTheme(theme);
  theme.hidden = false;
  theme.addEventListener("click", () => changeTheme(theme));
}
