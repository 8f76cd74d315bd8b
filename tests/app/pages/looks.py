"""How a view looks: its faults by axe, what overflows at a width, pictures in light and dark."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

from axe_core_python.base import AXE_SCRIPT as AXE

from tests.examples import ALL

from .browser import Page

# Pictures are kept here where the variable is set; CI does, and a person looks at them.
PICTURES = os.environ.get("TEST_QUADRILL_SCREENSHOTS")
WIDE, NARROW = 1400, 390
HEIGHT = 1000
# The dark scheme has the elements of the light one: what else axe looks at is the same.
COLOUR_RULES = ["color-contrast", "link-in-text-block"]


def faults(page: Page, *, of_colours: bool = False) -> list[str]:
    """What axe finds on the view that is open: rule, elements and why; ``of_colours`` asks for no more."""
    if not page.driver.execute_script("return typeof axe === 'object'"):
        page.driver.execute_script(AXE)
    options = {"resultTypes": ["violations"]} | ({"runOnly": COLOUR_RULES} if of_colours else {})
    found: list[dict[str, Any]] = page.driver.execute_async_script(
        "const [options, done] = arguments;"
        "axe.run(document, options).then(({violations}) => done(violations));",
        options,
    )
    return [
        f"{fault['id']}: {node['html'][:160]}: {node.get('failureSummary', '')}"
        for fault in found
        for node in fault["nodes"]
    ]


def show_as(page: Page, *, width: int = WIDE, dark: bool = False) -> None:
    """Give the browser's view a width in CSS pixels, and the light or dark scheme."""
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False},
    )
    page.driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]},
    )


def overflow(page: Page) -> list[str]:
    """The elements that make the page wider than its window."""
    found: list[str] = page.driver.execute_script(
        """const width = document.documentElement.clientWidth;
        if (document.documentElement.scrollWidth <= width) return [];
        return [...document.body.querySelectorAll('*')]
          .filter((node) => node.getBoundingClientRect().right > width + 1)
          .map((node) => `${node.tagName.toLowerCase()}#${node.id}.${node.className}`).slice(0, 20);"""
    )
    return found


def escaped(page: Page) -> list[str]:
    """Texts that reach beyond the left or right edge of the box in which they stand.

    A box is a panel, a button, a badge, a cell, or a box of a drawing. Texts that are cut or scrolled on
    purpose are left out.
    """
    found: list[str] = page.driver.execute_script(
        """const BOXES = `button, .button, .badge, .chip, .notice, td, th, .plan-node, svg, .panel, .bar,
          .menu-body, dialog`;
        const UNSEEN = `script, template, noscript, option, title, [hidden], .visually-hidden, .skip`;
        const cuts = (node) => getComputedStyle(node).overflowX !== "visible";
        const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        const found = [];
        for (let text = walker.nextNode(); text; text = walker.nextNode()) {
          const parent = text.parentElement;
          if (!text.data.trim() || parent.closest(UNSEEN)) continue;
          const box = parent.closest(BOXES);
          if (box === null || !parent.checkVisibility({ visibilityProperty: true })) continue;
          let cut = getComputedStyle(box).textOverflow === "ellipsis";
          for (let node = parent; node !== box; node = node.parentElement) cut ||= cuts(node);
          if (cut) continue;
          const range = document.createRange();
          range.selectNodeContents(text);
          const edge = (box.querySelector(":scope > rect.plan-box") ?? box).getBoundingClientRect();
          // A space at the end of a line may hang over the edge.
          const isOutside = ({ left, right, width }) => width > 6
            && (left < edge.left - 1 || right > edge.right + 1);
          const name = `${box.tagName.toLowerCase()}.${box.getAttribute("class") ?? ""}`;
          if ([...range.getClientRects()].some(isOutside)) found.push(`${name}: ${text.data.trim()}`);
        }
        return found.slice(0, 20);"""
    )
    return found


def picture(page: Page, name: str) -> None:
    """Keep a picture of the whole view as `name`.png, where a folder for pictures is set."""
    if PICTURES is None:
        return
    # The whole width, scroll bar included: without a clip the picture is narrower than what it shows.
    clip = page.driver.execute_script(
        "return {x: 0, y: 0, scale: 1, width: innerWidth, height: document.documentElement.scrollHeight};"
    )
    shot = page.driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
    )
    folder = Path(PICTURES)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


def looks_well(page: Page, name: str) -> list[str]:
    """The faults of the view that is open, wide and narrow, light and dark; keeps the four pictures."""
    found: list[str] = []
    for width in (WIDE, NARROW):
        for dark in (False, True):
            show_as(page, width=width, dark=dark)
            scheme = "dark" if dark else "light"
            # What is narrow and dark has the colours of what is wide and dark.
            if ALL or width == WIDE or not dark:
                found += [f"{width} px, {scheme}: {fault}" for fault in faults(page, of_colours=dark)]
            found += [f"{width} px, {scheme}: overflows: {element}" for element in overflow(page)]
            found += [f"{width} px, {scheme}: beyond its box: {text}" for text in escaped(page)]
            picture(page, f"{name}-{width}-{scheme}")
    show_as(page)
    return found
