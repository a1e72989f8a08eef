// Updates pages that are looked at, opens Airflow's own pages around this one, and asks before a change.
"use strict";
(() => {
  const body = document.body;
  const live = () => document.getElementById("live");
  const stale = document.getElementById("stale");

  // ---- Updates: htmx asks for the part `live` again --------------------------------------------------------------

  let isOver = false;

  function isBusyHere() {
    const part = live();
    const focused = document.activeElement;
    // An update would scroll a long text back to its start.
    const isReading = focused !== null && part.contains(focused) && /^(INPUT|SELECT|PRE)$/.test(focused.tagName);
    const selected = window.getSelection();
    const hasSelection = selected !== null && !selected.isCollapsed && part.contains(selected.anchorNode);
    return isReading || hasSelection || part.querySelector("input[type=checkbox]:checked") !== null;
  }

  function beforeRequest(event) {
    const isWanted = document.getElementById("updates").checked && !isOver;
    if (!isWanted || document.hidden || isBusyHere()) event.preventDefault();
  }

  // An update replaces every element. A person who works by keyboard stays at the link or button with the focus.
  let focused = null;

  function alike(element) {
    const name = element.getAttribute("href") || element.getAttribute("aria-label") || element.textContent;
    return [...live().querySelectorAll(element.tagName)].filter(
      (other) => (other.getAttribute("href") || other.getAttribute("aria-label") || other.textContent) === name,
    );
  }

  // What a person began while the update was on its way would be lost; the next update comes by itself.
  function beforeSwap(event) {
    if (isBusyHere()) event.detail.shouldSwap = false;
    const element = document.activeElement;
    focused = live().contains(element) ? { element, place: alike(element).indexOf(element) } : null;
  }

  function giveFocus() {
    if (focused === null || live().contains(document.activeElement)) return;
    alike(focused.element)[focused.place]?.focus({ preventScroll: true });
  }

  function say(sentence) {
    stale.textContent = sentence;
    stale.hidden = sentence === "";
  }

  // The sentence of a page that the server answered instead.
  function whyOf(answer) {
    const page = new DOMParser().parseFromString(answer.responseText, "text/html");
    return page.querySelector(".problem h1 + p")?.textContent ?? "";
  }

  function refused(event) {
    const status = event.detail.xhr.status;
    isOver = status === 401 || status === 403;
    say(
      status === 401
        ? "Your session has ended, so this page is no longer updated. Reload Airflow to log in."
        : isOver
          ? `You may no longer read this, so the page is no longer updated. ${whyOf(event.detail.xhr)}`
          : "The last update failed; what you see is older. The next try follows by itself.",
    );
  }

  body.addEventListener("htmx:beforeRequest", beforeRequest);
  body.addEventListener("htmx:beforeSwap", beforeSwap);
  body.addEventListener("htmx:afterSwap", () => {
    giveFocus();
    say("");
  });
  body.addEventListener("htmx:responseError", refused);
  for (const name of ["htmx:sendError", "htmx:timeout"]) {
    body.addEventListener(name, () => say("Airflow does not answer; what you see is older. The next try follows by itself."));
  }
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) window.htmx.trigger(body, "workorders:poll");
  });

  // ---- Links to Airflow ----------------------------------------------------------------------------------------

  // The frame may neither open windows nor navigate Airflow, so Airflow's own document follows the link.
  function inParent(event) {
    const link = event.target.closest("a[data-parent]");
    if (link === null || window.parent === window || event.ctrlKey || event.metaKey || event.button !== 0) return;
    event.preventDefault();
    const outer = window.parent.document;
    const copy = outer.createElement("a");
    copy.href = link.href;
    outer.body.append(copy);
    copy.click();
    copy.remove();
  }

  // ---- Forms ---------------------------------------------------------------------------------------------------

  // Each form is sent once: a second click would ask for the same change again. A download leaves its page as it is.
  function sendOnce(event) {
    const form = event.target;
    if (form.method !== "post" || "download" in form.dataset) return;
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "yes";
    for (const button of form.querySelectorAll("button")) button.setAttribute("aria-disabled", "true");
  }

  // An empty field filters nothing, and does not belong into an address that people share.
  function dropEmptyFields(event) {
    if (event.target.method !== "get") return;
    for (const field of [...event.target.elements]) {
      if (field.name && field.value === "") field.disabled = true;
    }
  }

  // ---- Selection of work orders --------------------------------------------------------------------------------

  function select(event) {
    const box = event.target;
    if (!(box instanceof HTMLInputElement) || box.type !== "checkbox") return;
    const part = box.closest("[data-selection]");
    if (part === null) return;
    if ("all" in box.dataset) for (const row of rowsOf(part)) row.checked = box.checked;
    showSelection(part);
  }

  function rowsOf(part) {
    return [...part.querySelectorAll("input[name=selected]")];
  }

  function showSelection(part) {
    const rows = rowsOf(part);
    const all = part.querySelector("input[data-all]");
    const count = rows.filter((row) => row.checked).length;
    if (all !== null) {
      all.checked = count > 0 && count === rows.length;
      all.indeterminate = count > 0 && count < rows.length;
    }
    for (const place of document.querySelectorAll("[data-selected-count]")) place.textContent = String(count);
    for (const place of document.querySelectorAll("[data-when-selected]")) place.hidden = count === 0;
  }

  document.addEventListener("click", inParent);
  document.addEventListener("submit", sendOnce);
  document.addEventListener("submit", dropEmptyFields);
  document.addEventListener("change", select);
  // A page that the browser brings back from its cache may be old, and its forms may have been sent.
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) window.location.reload();
  });
  // A person may have ticked boxes before this script was there, and a browser keeps ticks over a reload.
  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("[data-selection]").forEach(showSelection));
})();
