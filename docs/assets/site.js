// Names for what the theme leaves without: the search, and the buttons of each block of code.
function nameParts() {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll("nav.md-code__nav").forEach((nav, i) =>
    nav.setAttribute("aria-label", `Code block ${i + 1}`));
  // A wide table is scrolled by keyboard too.
  document.querySelectorAll(".md-typeset__scrollwrap").forEach((one) => { one.tabIndex = 0; });
}
nameParts();
new MutationObserver(nameParts).observe(document.body, { childList: true, subtree: true });
