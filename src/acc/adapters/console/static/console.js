"use strict";
(() => {
  const connection = document.getElementById("connection");
  const composer = document.getElementById("composer");
  const isAtEnd = () => window.innerHeight + window.scrollY > document.body.scrollHeight - 160;
  const toEnd = () => window.scrollTo({ top: document.body.scrollHeight });
  let follows = true;
  window.addEventListener("scroll", () => { follows = isAtEnd(); }, { passive: true });
  for (const chat of document.querySelectorAll(".chat")) {
    const conversation = chat.querySelector(".conversation");
    const observer = new MutationObserver(() => {
      if (conversation.children.length) chat.querySelector(".empty")?.remove();
      if (follows) toEnd();
    });
    observer.observe(conversation, { childList: true });
    observer.observe(chat.querySelector(".draft"), { childList: true, characterData: true, subtree: true });
    if (conversation.children.length && !location.hash) toEnd();
  }

  const lost = new Set();
  const show = (event, isLost) => {
    lost[isLost ? "add" : "delete"](event.target);
    connection.hidden = !lost.size;
  };
  document.body.addEventListener("htmx:sse:error", (event) => show(event, true));
  document.body.addEventListener("htmx:sse:close", (event) => show(event, true));
  document.body.addEventListener("htmx:sse:after:connection", (event) => show(event, false));

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
