"use strict";
// Search and filters of the findings of all turns. Content is inserted as text only.
(() => {
  const data = JSON.parse(document.getElementById("finding-data").textContent);
  const root = document.getElementById("finding-search");
  if (!data.findings.length) return;
  root.hidden = false;
  const PAGE = 50;
  const state = { text: "", kind: "", agent: "", versus: "", shown: PAGE };

  const make = (tag, attributes, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  // Which agents have a finding in a turn.
  const byTurn = new Map();
  for (const [episode, turn, , agent] of data.findings) {
    const key = episode + "/" + turn;
    if (!byTurn.has(key)) byTurn.set(key, new Set());
    byTurn.get(key).add(agent);
  }

  function select(label, field, names, any) {
    const list = make("select", { "aria-label": label }, make("option", { value: "" }, any));
    names.forEach((name, number) => list.append(make("option", { value: String(number) }, name)));
    list.addEventListener("change", () => { state[field] = list.value; state.shown = PAGE; draw(); });
    return make("label", {}, label, list);
  }
  const counts = data.classes.map((name, number) => data.findings.filter((row) => row[4] === number).length);
  const used = data.classes.map((name, number) => [name + " (" + counts[number] + ")", number]).filter(([, number]) => counts[number]);
  const kinds = make("select", { "aria-label": "Class" }, make("option", { value: "" }, "all classes"));
  for (const [name, number] of used) kinds.append(make("option", { value: String(number) }, name));
  kinds.addEventListener("change", () => { state.kind = kinds.value; state.shown = PAGE; draw(); });
  const search = make("input", { type: "search", "aria-label": "Search findings", placeholder: "text, scenario or topic" });
  search.addEventListener("input", () => { state.text = search.value.toLowerCase(); state.shown = PAGE; draw(); });
  const status = make("p", { role: "status", class: "note" });
  const body = make("tbody", {});
  const table = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Findings" },
    make("table", { class: "stack" },
      make("thead", {}, make("tr", {}, ...["turn", "agent", "class", "text"].map((name) => make("th", { scope: "col" }, name)))),
      body));
  const more = make("button", { type: "button" }, "Show more");
  more.addEventListener("click", () => { state.shown += 4 * PAGE; draw(); });
  root.append(
    make("div", { class: "controls" }, make("label", {}, "Search", search), make("label", {}, "Class", kinds),
      select("Agent", "agent", data.agents, "all agents"),
      select("but not", "versus", data.agents, "any other agent")),
    status, table, more);

  function matches([episode, turn, topic, agent, kind, text]) {
    if (state.kind !== "" && kind !== Number(state.kind)) return false;
    if (state.agent !== "" && agent !== Number(state.agent)) return false;
    if (state.versus !== "") {
      const other = Number(state.versus);
      if (agent === other || byTurn.get(episode + "/" + turn).has(other)) return false;
    }
    if (!state.text) return true;
    const all = text + " " + data.episodes[episode][1] + " " + data.topics[topic];
    return all.toLowerCase().includes(state.text);
  }

  function row([episode, turn, topic, agent, kind, text]) {
    const [name, , page] = data.episodes[episode];
    const label = name + ", turn " + turn;
    const place = make("td", { "data-label": "turn" });
    place.append(page ? make("a", { href: page + "#" + encodeURIComponent(name) + "/" + turn }, label) : label,
      make("small", {}, " " + data.topics[topic]));
    const said = make("td", { "data-label": "text", dir: "auto" }, text);
    return make("tr", {}, place, make("td", { "data-label": "agent" }, make("bdi", {}, data.agents[agent])),
      make("td", { "data-label": "class" }, data.classes[kind]), said);
  }

  function draw() {
    const found = data.findings.filter(matches);
    const listed = found.slice(0, state.shown);
    body.replaceChildren(...listed.map(row));
    more.hidden = found.length <= state.shown;
    const left = data.total > data.findings.length ? "; the page has the first " + data.findings.length + " of " + data.total : "";
    status.textContent = listed.length + " of " + found.length + " findings shown" + left;
  }
  draw();
})();
