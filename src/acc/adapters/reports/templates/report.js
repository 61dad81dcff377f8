"use strict";
// Content of the evaluation is inserted as text only, never as markup.

// Tooltips and PNG export of the charts.
(() => {
  const PNG_SCALE = 2;
  const TITLE_HEIGHT = 28;

  function addTooltips(plot, title) {
    const hits = [...plot.querySelectorAll(".hit")];
    const texts = hits.map((hit) => {
      const text = hit.querySelector("title").textContent;
      hit.querySelector("title").remove();  // the browser would show it as a second tooltip
      return text;
    });
    const box = document.createElement("div");
    box.className = "tooltip";
    box.setAttribute("role", "status");
    box.hidden = true;
    plot.append(box);
    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    plot.setAttribute("aria-label", title + ": arrow keys read the values");
    let current = -1;

    function show(index) {
      if (hits[current]) hits[current].classList.remove("active");
      current = index;
      box.hidden = index < 0;
      if (index < 0) return;
      hits[index].classList.add("active");
      box.replaceChildren(...texts[index].split("\n").map((line) => {
        const row = document.createElement("div");
        row.textContent = line;
        return row;
      }));
      const area = plot.getBoundingClientRect();
      const hit = hits[index].getBoundingClientRect();
      const right = hit.right - area.left + 8;
      const left = hit.left - area.left - box.offsetWidth - 8;
      box.style.left = Math.max(0, right + box.offsetWidth <= area.width ? right : left) + "px";
      box.style.top = Math.max(0, hit.top - area.top + 8) + "px";
    }

    hits.forEach((hit, index) => hit.addEventListener("pointerenter", () => show(index)));
    plot.addEventListener("pointerleave", () => show(-1));
    plot.addEventListener("blur", () => show(-1));
    plot.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: hits.length - 1 };
      if (event.key === "Escape") show(-1);
      if (!(event.key in steps)) return;
      event.preventDefault();
      event.stopPropagation();
      show(Math.min(hits.length - 1, Math.max(0, steps[event.key])));
    });
  }

  // The drawing has the colours of a white page as attributes; the dark colours are CSS.
  function savePng(svg, title, name) {
    const { width, height } = svg.viewBox.baseVal;
    const copy = svg.cloneNode(true);
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("viewBox", `0 ${-TITLE_HEIGHT} ${width} ${height + TITLE_HEIGHT}`);
    copy.setAttribute("width", width * PNG_SCALE);
    copy.setAttribute("height", (height + TITLE_HEIGHT) * PNG_SCALE);
    const heading = document.createElementNS("http://www.w3.org/2000/svg", "text");
    heading.textContent = title;
    for (const [key, value] of Object.entries({ x: 6, y: -9, "font-size": 14, "font-weight": "bold" })) heading.setAttribute(key, value);
    copy.append(heading);
    const image = new Image();
    image.addEventListener("load", () => {
      const canvas = document.createElement("canvas");
      canvas.width = width * PNG_SCALE;
      canvas.height = Math.ceil((height + TITLE_HEIGHT) * PNG_SCALE);
      const context = canvas.getContext("2d");
      context.fillStyle = "#ffffff";
      context.fillRect(0, 0, canvas.width, canvas.height);
      context.drawImage(image, 0, 0);
      const link = document.createElement("a");
      link.href = canvas.toDataURL("image/png");
      link.download = name + ".png";
      link.click();
    });
    image.src = "data:image/svg+xml," + encodeURIComponent(new XMLSerializer().serializeToString(copy));
  }

  for (const figure of document.querySelectorAll("figure.chart")) {
    const plot = figure.querySelector(".plot");
    if (!plot) continue;
    const title = figure.querySelector("h3").textContent;
    addTooltips(plot, title);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link";
    button.textContent = "PNG";
    button.addEventListener("click", () => savePng(plot.querySelector("svg"), title, figure.id.replace("chart-", "")));
    figure.querySelector(".files").append(" ", button);
  }
})();

// The turn browser.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.getElementById("browser");
  if (!data.episodes.length) return;
  root.hidden = false;

  const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g;
  const SCORES = ["relevance", "quality", "instructions", "coherence"];
  const TRACE_FIELDS = ["recalled", "qualified", "rejected", "dropped", "notes"];
  const state = { episode: data.episodes[0], turn: null, topic: "", problem: "" };

  function el(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name === "class") node.className = value;
      else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value !== null && value !== false) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  }

  // Shows invisible and bidirectional control characters by their code point.
  function visible(text) {
    const nodes = [];
    let from = 0;
    for (const match of text.matchAll(HIDDEN)) {
      nodes.push(text.slice(from, match.index));
      const number = match[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
      nodes.push(el("span", { class: "hidden-character" }, "U+" + number));
      from = match.index + match[0].length;
    }
    nodes.push(text.slice(from));
    return nodes;
  }

  function quoted(tag, text, className) {
    const value = typeof text === "string" ? text : JSON.stringify(text) ?? "";
    const attributes = { class: ("data " + (className || "")).trim(), dir: "auto", lang: state.episode.language };
    return el(tag, attributes, ...visible(value));
  }

  const topicOf = (turn) => (turn.topic || "no topic").replaceAll("_", " ");
  const percent = (value) => (value === undefined ? "not defined" : (100 * value).toFixed(1) + " %");
  const unsupported = (agent) => (agent.counts ? agent.counts[1] : 0);
  const broken = (agent) => (agent.broken ? agent.broken[0] + agent.broken[1] : 0);
  const hasProblem = (agent) => Boolean(agent.status || unsupported(agent) || broken(agent));
  const plural = (count, word) => count + " " + word + (count === 1 ? "" : "s");

  function matches(turn) {
    if (state.topic && turn.topic !== state.topic) return false;
    if (!state.problem) return true;
    const agents = turn.agents.filter((a) => state.problem === "*" || "=" + a.name === state.problem);
    return agents.some(hasProblem);
  }

  function problemsOf(agent) {
    if (agent.status) return agent.name + " " + agent.status;
    const parts = [];
    if (unsupported(agent)) parts.push(plural(unsupported(agent), "unsupported claim"));
    if (broken(agent)) parts.push(plural(broken(agent), "broken rule"));
    return parts.length ? agent.name + " " + parts.join(" and ") : "";
  }

  // The controls.
  const choice = (label, select) => el("label", {}, label, select);
  const option = (value, text) => el("option", { value }, ...visible(text));
  const episodes = el("select", { onchange: () => openEpisode(episodes.value) });
  for (const episode of data.episodes) {
    const part = episode.of ? " (" + episode.turns.length + " of " + episode.of + " turns)" : "";
    episodes.append(option(episode.name, episode.name + part));
  }
  const topics = el("select", { onchange: () => { state.topic = topics.value; filter(); } });
  const problems = el("select", { onchange: () => { state.problem = problems.value; filter(); } });
  problems.append(option("", "all turns"), option("*", "only turns with a problem"));
  for (const agent of data.agents) problems.append(option("=" + agent.name, "with a problem of " + agent.name));
  const names = el("div", { class: "strip-names", "aria-hidden": "true" });
  for (const agent of data.agents) {
    names.append(el("span", { class: "agent-" + agent.slot }, el("span", { class: "swatch" }), ...visible(agent.name)));
  }
  const cells = el("div", { class: "strip-cells", role: "group", "aria-label": "Turns of the episode" });
  const key = el("p", { class: "key" },
    el("span", {}, el("i", { class: "claim" }), "upper half: unsupported claim"),
    el("span", {}, el("i", { class: "rule" }), "lower half: broken rule"),
    el("span", {}, "×: failed or unscored"),
    el("span", {}, "▲: injected content"));
  const previous = el("button", { type: "button", onclick: () => step(-1) }, "← Previous");
  const next = el("button", { type: "button", onclick: () => step(1) }, "Next →");
  const place = el("span", { role: "status" });
  const turnBox = el("article", { class: "turn", "aria-label": "Turn" });
  root.append(
    el("div", { class: "controls" }, choice("Episode", episodes), choice("Topic", topics), choice("Show", problems)),
    el("div", { class: "strip" }, names, cells), key,
    el("div", { class: "turn-nav" }, previous, next, place), turnBox);

  function stripCell(agent) {
    if (agent.status) return el("span", { class: "state missing" }, "×");
    return el("span", { class: "state" },
      el("i", { class: unsupported(agent) ? "claim" : "" }),
      el("i", { class: broken(agent) ? "rule" : "" }));
  }

  function drawStrip() {
    cells.replaceChildren();
    for (const turn of state.episode.turns) {
      const summary = turn.agents.map(problemsOf).filter(Boolean).join("; ") || "no problem";
      const label = "Turn " + turn.turn + ", " + topicOf(turn) + (turn.injected ? ", injected content" : "") + ": " + summary;
      const tick = turn.injected ? "▲" : turn.turn % 5 === 0 || turn.turn === 1 ? String(turn.turn) : "";
      const byName = new Map(turn.agents.map((agent) => [agent.name, agent]));
      const states = data.agents.map((agent) => (byName.has(agent.name) ? stripCell(byName.get(agent.name)) : el("span")));
      cells.append(el("button", {
        type: "button", "aria-label": label, title: label, "data-turn": turn.turn,
        onclick: () => go(turn.turn),
      }, el("span", { class: "tick" }, tick), ...states));
    }
  }

  // One turn.
  function query(turn) {
    const box = quoted("blockquote", "", "query");
    const at = turn.injected ? turn.query.indexOf(turn.injected) : -1;
    if (at < 0) {
      box.replaceChildren(...visible(turn.query));
      if (turn.injected) box.append(el("mark", {}, el("span", { class: "injected-label" }, "injected"), ...visible(turn.injected)));
      return box;
    }
    box.replaceChildren(
      ...visible(turn.query.slice(0, at)),
      el("mark", {}, el("span", { class: "injected-label" }, "injected"), ...visible(turn.injected)),
      ...visible(turn.query.slice(at + turn.injected.length)));
    return box;
  }

  function pair(term, value, bad) {
    return el("div", {}, el("dt", {}, term), el("dd", { class: bad ? "bad" : "" }, value));
  }

  function figures(agent) {
    const list = el("dl", { class: "figures" });
    if (agent.scores) {
      list.append(pair("outcome", agent.outcome.toFixed(2)));
      agent.scores.forEach((score, number) => list.append(pair(SCORES[number], score.toFixed(2))));
      list.append(pair("hallucination", percent(agent.hallucination), agent.hallucination > 0));
      list.append(pair("drift", percent(agent.drift), agent.drift > 0));
    }
    list.append(pair("memory", agent.memory === undefined ? "not reported" : agent.memory.toLocaleString("en") + " tokens"));
    return list;
  }

  function claimItem([claim, supported, reason, evidence]) {
    const word = supported ? "✓ supported" : "✕ unsupported";
    const item = el("li", { class: supported ? "supported" : "unsupported" },
      el("span", { class: "word" }, word), quoted("span", claim));
    if (reason && reason !== "stated") item.append(el("small", {}, "Why: ", quoted("span", reason)));
    if (evidence) item.append(el("small", {}, "Evidence: ", quoted("span", evidence)));
    else if (evidence === undefined) item.append(el("small", {}, "Evidence: the same words"));
    return item;
  }

  function findingItem([constraint, omission, reason]) {
    return el("li", { class: "broken" },
      el("span", { class: "word" }, omission ? "! omitted" : "! violated"), quoted("span", constraint),
      reason ? el("small", {}, "Why: ", quoted("span", reason)) : null);
  }

  function card(known, agent) {
    const box = el("section", { class: "card agent-" + known.slot });
    box.append(el("h4", {}, el("bdi", {}, ...visible(known.name)),
      el("small", {}, agent && agent.status ? agent.status : known.kind)));
    if (!agent) return box;
    if (agent.error) box.append(quoted("p", agent.error, "error"));
    box.append(agent.answer ? quoted("p", agent.answer, "answer") : el("p", { class: "answer" }, "No answer."));
    if (agent.flags) box.append(quoted("p", "Flagged: the answer " + agent.flags.join(", "), "error"));
    box.append(figures(agent));
    const claims = agent.claims || [];
    const findings = agent.findings || [];
    if (claims.length) {
      box.append(el("h5", {}, plural(claims.length, "claim")), el("ul", { class: "items" }, ...claims.map(claimItem)));
    } else if (agent.counts) {
      box.append(el("h5", {}, agent.counts[0] + " supported and " + agent.counts[1] + " unsupported claims, not listed by the judge"));
    } else if (!agent.status) box.append(el("h5", {}, "No claims"));
    if (findings.length) {
      box.append(el("h5", {}, findings.length + " of " + plural(agent.rules || 0, "rule") + " broken"),
        el("ul", { class: "items" }, ...findings.map(findingItem)));
    } else if (broken(agent)) {
      box.append(el("h5", {}, broken(agent) + " of " + plural(agent.rules || 0, "rule") + " broken, not listed by the judge"));
    } else if (!agent.status) box.append(el("h5", {}, agent.rules ? "All " + plural(agent.rules, "rule") + " followed" : "No rules in force"));
    return box;
  }

  // Parses the text form of a state: one field per line, items separated by " | ", four escapes.
  const CODES = { "\\\\": "\\", "\\p": "|", "\\l": "<", "\\g": ">" };
  function fieldsOf(text) {
    const fields = new Map();
    for (const line of text.split("\n").filter(Boolean)) {
      const colon = line.indexOf(": ");
      const name = colon > 0 ? line.slice(0, colon) : "text";
      const items = (colon > 0 ? line.slice(colon + 2) : line).split(" | ");
      fields.set(name, (fields.get(name) || []).concat(items.map((i) => i.replace(/\\[\\plg]/g, (c) => CODES[c]))));
    }
    return fields;
  }

  function without(items, others) {
    const left = [...others];
    return items.map((item) => {
      const at = left.indexOf(item);
      if (at >= 0) left.splice(at, 1);
      return at < 0;
    });
  }

  function changedFields(text, before) {
    const now = fieldsOf(text);
    const then = before === undefined ? null : fieldsOf(before);
    const list = el("dl", { class: "fields" });
    let added = 0;
    let removed = 0;
    for (const name of new Set([...now.keys(), ...(then ? then.keys() : [])])) {
      const items = now.get(name) || [];
      const old = then ? then.get(name) || [] : items;
      const rows = el("ul");
      without(old, items).forEach((gone, number) => {
        if (!gone) return;
        removed += 1;
        rows.append(el("li", { class: "removed" }, el("span", { class: "word" }, "− removed"), quoted("del", old[number])));
      });
      const fresh = without(items, old);
      items.forEach((item, number) => {
        added += fresh[number] ? 1 : 0;
        rows.append(el("li", { class: fresh[number] ? "added" : "" },
          fresh[number] ? el("span", { class: "word" }, "+ new") : null, quoted(fresh[number] ? "ins" : "span", item)));
      });
      list.append(el("div", {}, el("dt", {}, ...visible(name.replaceAll("_", " "))), el("dd", {}, rows)));
    }
    const summary = then ? added + " new and " + removed + " removed since the previous turn" : "the previous turn is not on this page";
    return [summary, list];
  }

  function trailItem(entry) {
    if (entry === null || typeof entry !== "object") return el("li", {}, quoted("span", String(entry)));
    const item = el("li");
    if (entry.id) item.append(el("code", {}, ...visible(String(entry.id))), " ");
    if (entry.reason) item.append(el("b", {}, ...visible(String(entry.reason))), " ");
    item.append(quoted("span", entry.text === undefined ? entry : entry.text));
    if (entry.explanation) item.append(el("small", {}, " ", quoted("span", entry.explanation)));
    return item;
  }

  function memory(known, agent, before) {
    const trace = agent.trace;
    const box = el("section", { class: "memory agent-" + known.slot });
    const title = el("h4", {}, "Memory of ", el("bdi", {}, ...visible(known.name)));
    box.append(title);
    if (typeof trace.ccs === "string" && trace.ccs) {
      const earlier = before && before.trace && typeof before.trace.ccs === "string" ? before.trace.ccs : undefined;
      const [summary, list] = changedFields(trace.ccs, earlier);
      title.append(" ", el("small", {}, summary));
      box.append(list);
    }
    const rest = Object.keys(trace).filter((name) => name !== "ccs" && !TRACE_FIELDS.includes(name));
    for (const name of [...TRACE_FIELDS, ...rest]) {
      const value = trace[name];
      if (value === undefined || (Array.isArray(value) && !value.length)) continue;
      const entries = Array.isArray(value) ? value : [value];
      const short = name === "recalled" && entries.every((entry) => typeof entry === "string");
      const body = short ? el("p", {}, el("code", {}, ...visible(entries.join(", ")))) : el("ul", {}, ...entries.map(trailItem));
      box.append(el("details", { class: "trail", open: name === "rejected" || name === "notes" ? "" : null },
        el("summary", {}, ...visible(name), " (" + entries.length + ")"), body));
    }
    return box;
  }

  function drawTurn() {
    const turns = state.episode.turns;
    const listed = turns.filter(matches);
    const index = turns.findIndex((turn) => turn.turn === state.turn);
    for (const button of cells.children) {
      const turn = Number(button.dataset.turn);
      button.classList.toggle("out", !listed.some((one) => one.turn === turn));
      if (turn === state.turn) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    previous.disabled = !neighbour(-1);
    next.disabled = !neighbour(1);
    if (index < 0) {
      place.textContent = "No turn matches.";
      turnBox.replaceChildren();
      return;
    }
    const turn = turns[index];
    place.textContent = plural(listed.length, "turn") + " of " + turns.length + " shown; arrow keys move";
    const before = index > 0 && turns[index - 1].turn === turn.turn - 1 ? turns[index - 1] : null;
    const find = (where, name) => (where ? where.agents.find((agent) => agent.name === name) : undefined);
    const parts = [
      el("h3", {}, "Turn " + turn.turn + ": " + topicOf(turn), el("small", {}, "  " + state.episode.name)),
      query(turn),
      el("div", { class: "cards" }, ...data.agents.map((known) => card(known, find(turn, known.name)))),
    ];
    for (const known of data.agents) {
      const agent = find(turn, known.name);
      if (agent && agent.trace) parts.push(memory(known, agent, find(before, known.name)));
    }
    turnBox.replaceChildren(...parts);
    const current = cells.querySelector('[aria-current="true"]');
    if (current) {
      const left = current.offsetLeft - cells.offsetLeft;
      if (left < cells.scrollLeft || left > cells.scrollLeft + cells.clientWidth - 24) cells.scrollLeft = left - cells.clientWidth / 2;
    }
  }

  function neighbour(way) {
    const listed = state.episode.turns.filter((turn) => matches(turn) && (turn.turn - state.turn) * way > 0);
    return way > 0 ? listed[0] : listed[listed.length - 1];
  }

  function go(turn) {
    state.turn = turn;
    history.replaceState(null, "", "#" + encodeURIComponent(state.episode.name) + "/" + turn);
    drawTurn();
  }

  function step(way) {
    const turn = neighbour(way);
    if (turn) go(turn.turn);
  }

  function filter() {
    const listed = state.episode.turns.filter(matches);
    if (listed.length && !listed.some((turn) => turn.turn === state.turn)) state.turn = listed[0].turn;
    else if (!listed.length) state.turn = null;
    drawTurn();
  }

  function openEpisode(name, turn) {
    state.episode = data.episodes.find((episode) => episode.name === name) || data.episodes[0];
    episodes.value = state.episode.name;
    const topicNames = [...new Set(state.episode.turns.map((one) => one.topic || ""))].filter(Boolean).sort();
    topics.replaceChildren(option("", "all topics"), ...topicNames.map((topic) => option(topic, topic.replaceAll("_", " "))));
    if (!topicNames.includes(state.topic)) state.topic = "";
    topics.value = state.topic;
    drawStrip();
    const turns = state.episode.turns;
    state.turn = turns.some((one) => one.turn === turn) ? turn : turns.length ? turns[0].turn : null;
    if (turn === undefined) filter();
    else drawTurn();
  }

  function openHash() {
    const hash = location.hash.slice(1);
    const slash = hash.lastIndexOf("/");
    if (slash < 0) return false;
    let name = hash.slice(0, slash);
    try { name = decodeURIComponent(name); } catch { /* not encoded: use the text as it is */ }
    if (!data.episodes.some((episode) => episode.name === name)) return false;
    state.topic = state.problem = problems.value = "";
    openEpisode(name, Number(hash.slice(slash + 1)));
    root.scrollIntoView({ behavior: "instant" });
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (event.target.closest("select, input, textarea, .scroll")) return;
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      event.preventDefault();
      step(event.key === "ArrowLeft" ? -1 : 1);
    }
  });
  window.addEventListener("hashchange", openHash);
  if (!openHash()) openEpisode(data.episodes[0].name);
})();
