"""Checks of a page for people who see little or use no mouse: axe's rules, and what the keyboard reaches."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_SPARE_STEPS = 10
# What a person can act on and sees. Of a group of radio buttons one is reached by Tab, the others by the arrows.
_FIND = """() => {
  const seen = [];
  const groups = new Set();
  const all = 'a[href], button, input, select, textarea, summary, [tabindex="0"]';
  for (const part of document.querySelectorAll(all)) {
    if (part.disabled || part.type === 'hidden' || !part.checkVisibility({visibilityProperty: true})) continue;
    if (part.type === 'radio') {
      if (groups.has(part.name)) continue;
      groups.add(part.name);
    }
    seen.push(part);
  }
  window.reachable = new Set(seen);
  document.activeElement?.blur();
  return seen.length;
}"""
# Where the last Tab led; None at the end of the page.
_LOOK = """() => {
  const part = document.activeElement;
  if (part === null || part === document.body || part.dataset.seen) return null;
  part.dataset.seen = 'yes';
  for (const other of window.reachable)
    if (other === part || (part.type === 'radio' && other.name === part.name)) window.reachable.delete(other);
  const style = getComputedStyle(part);
  const is_visible = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
  return {name: part.outerHTML.slice(0, 120), is_visible};
}"""
_LEFT = "() => [...window.reachable].map((part) => part.outerHTML.slice(0, 120))"


def violations(page: Page) -> list[str]:
    """Return which of axe's rules a page breaks, and where."""
    found = Axe().run(page, options={"runOnly": _RULES}).response["violations"]
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:160]} {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    ]


def unreachable(page: Page) -> list[str]:
    """Return the parts of a page that Tab does not reach, and those whose focus is not shown."""
    steps = page.evaluate(_FIND) + _SPARE_STEPS
    faults: list[str] = []
    for _ in range(steps):
        page.keyboard.press("Tab")
        part = page.evaluate(_LOOK)
        if part is None:
            return [*faults, *(f"not reached: {name}" for name in page.evaluate(_LEFT))]
        if not part["is_visible"]:
            faults.append(f"no focus is seen: {part['name']}")
    raise AssertionError(f"Tab leads to more than {steps} places.")
