"use strict";
(() => {
  const conversation = document.getElementById("conversation");
  const draft = document.getElementById("draft");
  const connection = document.getElementById("connection");
  const composer = document.getElementById("composer");
  const isAtEnd = () => window.innerHeight + window.scrollY > document.body.scrollHeight - 160;
  let follows = true;
  window.addEventListener("scroll", () => { follows = isAtEnd(); }, { passive: true });
  const observer = new MutationObserver(() => {
    if (conversation.children.length) document.getElementById("empty")?.remove();
    if (follows) window.scrollTo({ top: document.body.scrollHeight });
  });
  observer.observe(conversation, { childList: true });
  observer.observe(draft, { childList: true, characterData: true, subtree: true });
  if (conversation.children.length && !location.hash) window.scrollTo({ top: document.body.scrollHeight });

  document.body.addEventListener("htmx:sse:error", () => { connection.hidden = false; });
  document.body.addEventListener("htmx:sse:close", () => { connection.hidden = false; });
  document.body.addEventListener("htmx:sse:after:connection", () => { connection.hidden = true; });

  if (composer) {
    const message = composer.querySelector("textarea");
    message.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) {
        event.preventDefault();
        composer.requestSubmit();
      }
    });
    composer.addEventListener("htmx:after:request", (event) => {
      if (event.detail.ctx.response.status === 204) {
        composer.reset();
        document.getElementById("notice").replaceChildren();
        follows = true;
      }
      message.focus();
    });
  }
})();
