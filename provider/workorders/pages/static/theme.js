// Runs before the page is painted: the theme, the colors, and the font are those that Airflow shows around the page.
"use strict";
(() => {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  // The other colors follow from these.
  const taken = {
    "--bg": "--chakra-colors-bg",
    "--fg": "--chakra-colors-fg",
    "--muted": "--chakra-colors-fg-muted",
    "--subtle": "--chakra-colors-bg-muted",
    "--border": "--chakra-colors-border",
    "--edge": "--chakra-colors-border-emphasized",
    "--accent": "--chakra-colors-fg-info",
    "--solid": "--chakra-colors-brand-solid",
    "--solid-fg": "--chakra-colors-brand-contrast",
    "--font": "--chakra-fonts-body",
  };

  // A browser may forbid to read the storage, and a frame of another site its document.
  function allowed(read) {
    try {
      return read();
    } catch {
      return null;
    }
  }

  const outer = allowed(() => (window.parent === window ? null : window.parent.document));

  function show() {
    const theme = allowed(() => localStorage.getItem("theme"));
    const isDark = theme === "dark" || (theme !== "light" && dark.matches);
    root.classList.toggle("dark", isDark);
    root.style.colorScheme = isDark ? "dark" : "light";
    root.classList.toggle("framed", outer !== null);
    if (outer === null) return;
    // Airflow changes its own class at the same event; its colors count after that.
    requestAnimationFrame(() => {
      const outside = getComputedStyle(outer.documentElement);
      for (const [own, theirs] of Object.entries(taken)) {
        const value = outside.getPropertyValue(theirs).trim();
        if (value) root.style.setProperty(own, value);
      }
    });
  }

  show();
  dark.addEventListener("change", show);
  window.addEventListener("storage", (event) => {
    if (event.key === "theme") show();
  });
  if (outer !== null) {
    new MutationObserver(show).observe(outer.documentElement, { attributes: true, attributeFilter: ["class"] });
  }
})();
