// Tabs by the WAI-ARIA pattern: arrow keys move, one tab is in the tab order.

/** Make tabs of buttons with role="tab"; `changed(button)` is called after a switch. */
export function tabs(buttons, changed) {
  const select = (chosen, focus) => {
    for (const button of buttons) {
      const on = button === chosen;
      button.setAttribute("aria-selected", String(on));
      button.tabIndex = on ? 0 : -1;
    }
    // Two tabs may share one panel, so what is shown is decided after all are known.
    const shown = chosen.getAttribute("aria-controls");
    for (const button of buttons) {
      const panel = document.getElementById(button.getAttribute("aria-controls"));
      panel.hidden = panel.id !== shown;
    }
    document.getElementById(shown).setAttribute("aria-labelledby", chosen.id);
    if (focus) chosen.focus();
    changed(chosen);
  };
  for (const [index, button] of buttons.entries()) {
    button.addEventListener("click", () => select(button, false));
    button.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      // Tabs that are not offered now are passed over.
      const offered = buttons.filter((other) => !other.hidden);
      if (step) select(offered[(offered.indexOf(buttons[index]) + step + offered.length) % offered.length], true);
    });
  }
  return (button) => select(button, false);
}
