"use strict";
(() => {
  const targets = new Map();
  for (const element of document.querySelectorAll("[data-key]")) targets.set(element.dataset.key, element);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) return;
    const target = targets.get(event.key.toLowerCase());
    if (target) {
      event.preventDefault();
      targets.clear(); // one label for each key, also on a slow connection
      target.click();
    }
  });
})();
