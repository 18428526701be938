// Names for what the theme leaves without: the search, and the buttons of each block of code.
function nameParts() {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll("nav.md-code__nav").forEach((nav, i) =>
    nav.setAttribute("aria-label", `Code block ${i + 1}`));
}
nameParts();
new MutationObserver(nameParts).observe(document.body, { childList: true, subtree: true });
