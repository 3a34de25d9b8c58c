"use strict";
(() => {
const DATA = JSON.parse(document.getElementById("data").textContent);
const NS = "http://www.w3.org/2000/svg", CHOSEN = "#B35900";
const CHUNK = 200;  // rows of a ledger at a time
const NONE = "-";
const printing = [];

// elements: text goes in as text, never as markup

function el(name, attributes, ...content) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) if (value !== null) node.setAttribute(key, value);
  node.append(...content.filter((part) => part !== null));
  return node;
}

function draw(parent, name, attributes) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  parent.append(node);
  return node;
}

const known = (value) => value !== null && value !== undefined;
// where a pointer is in an SVG, in its own units
function spot(svg, event) {
  const frame = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / frame.width;
  return [(event.clientX - frame.left) * scale, (event.clientY - frame.top) * scale];
}

// charts: figures that are there, to which a line of the chosen agent, a cross and readings are added

function chart(own, chosen) {
  const figure = document.getElementById(own.key), svg = figure.querySelector("svg"), readout = figure.querySelector(".readout");
  const [left, top, right, bottom] = own.box;
  const along = (value, [low, high], from, to) => from + (value - low) / (high - low) * (to - from);
  const X = (x) => along(x, own.x, left, right);
  const scale = own.log ? Math.log : Number, ends = own.y.map(scale);
  const Y = (y) => along(scale(y), ends, bottom, top);
  const mine = draw(svg, "path", { fill: "none", stroke: CHOSEN, "stroke-width": 1.7 }), cross = draw(svg, "path", { class: "cross" });
  const reset = () => { cross.setAttribute("d", ""); readout.textContent = ""; at = -1; };
  let at = -1;
  const history = (part) => own.each && known(chosen()) && known(own.each.of[chosen()]) ? own.each[part][own.each.of[chosen()]] : null;
  svg.addEventListener("pointerleave", reset);
  if (own.rows) {  // who spoke when
    const tell = (wanted, k) => {
      at = Math.max(0, Math.min(own.rows.length - 1, wanted));
      const states = [...own.rows[at]], times = states.filter((digit) => digit === "2").length;
      readout.textContent = `agent ${at}: spoke in ${times} of ${states.length}` + (states[k] ? `; ${own.unit} ${own.rounds[k]}: ${DATA.states[states[k] - 1]}` : "");
    };
    svg.addEventListener("pointermove", (event) => {
      const [x, y] = spot(svg, event), round = along(x, [left, right], ...own.x);
      tell(Math.round(along(y, [top, bottom], ends[1], ends[0])), own.rounds.findLastIndex((first) => first - 0.5 <= round));
    });
    keys(svg, () => at, own.rows.length, (k) => tell(k, -1));
    return () => {
      if (!known(chosen()) || chosen() >= own.rows.length) return;
      const [first, last] = [Y(chosen() - 0.5), Y(chosen() + 0.5)];
      mine.setAttribute("d", `M${left} ${first}H${right}V${last}H${left}Z`);
    };
  }
  const stops = [...new Set([...own.lines.flatMap((line) => line[1]), ...(own.rounds || [])])].sort((a, b) => a - b);
  const show = (k) => {
    if (!stops.length) return;
    at = Math.max(0, Math.min(stops.length - 1, k));
    cross.setAttribute("d", `M${X(stops[at])} ${top}V${bottom}`);
    const lines = history("said") ? [...own.lines, [`agent ${chosen()}`, own.rounds, history("said")]] : own.lines;
    const said = lines.map(([name, xs, texts]) => [name, texts[xs.indexOf(stops[at])]]).filter(([, text]) => known(text));
    readout.textContent = `${own.unit} ${stops[at]}: ` + said.map((words) => words.join(" ")).join(" · ");
  };
  svg.addEventListener("pointermove", (event) => {
    const [x] = spot(svg, event);
    let best = 0;
    stops.forEach((stop, k) => { if (Math.abs(X(stop) - x) < Math.abs(X(stops[best]) - x)) best = k; });
    show(best);
  });
  keys(svg, () => at, stops.length, show);
  return () => {
    let word = "";
    const line = history("lines");
    figure.querySelector(".mine").textContent = line ? `agent ${chosen()}` : "";
    if (line) line.forEach((y, k) => {
      const there = known(y) && (!own.log || y > 0);
      word += there ? `${word.endsWith(" ") || !word ? "M" : "L"}${X(own.rounds[k]).toFixed(1)} ${Y(y).toFixed(1)}` : " ";
    });
    mine.setAttribute("d", word.trim());
  };
}

// arrow keys go through what has a number
function keys(svg, now, count, go) {
  svg.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: now() + 1, ArrowDown: now() + 1, ArrowLeft: now() < 0 ? count - 1 : now() - 1, ArrowUp: now() - 1, Home: 0, End: count - 1 };
    if (!(event.key in steps)) return;
    event.preventDefault(); go(steps[event.key]);
  });
}

// the graph: circles that are there, chosen by click and keys

function network(run, place, choose, chosen) {
  const own = run.graph, nodes = own.nodes, svg = place.querySelector("svg");
  const circles = [...svg.querySelectorAll(".nodes use")], index = new Map(nodes.map((agent, k) => [agent, k]));
  const near = new Map(nodes.map((agent) => [agent, []]));
  for (let k = 0; own.edges && k < own.edges.length; k += 2) {
    near.get(own.edges[k]).push(own.edges[k + 1]); near.get(own.edges[k + 1]).push(own.edges[k]);
  }
  circles.forEach((circle, k) => { circle.dataset.agent = nodes[k]; });
  const radius = circles[0].getBBox().width / 2, spot = (agent) => { const { x, y } = circles[index.get(agent)]; return `${x.baseVal.value} ${y.baseVal.value}`; };
  const lines = draw(svg, "path", { fill: "none", stroke: CHOSEN, "stroke-width": 1.5, "pointer-events": "none" });
  svg.insertBefore(lines, svg.querySelector(".nodes"));
  const ring = draw(svg, "circle", { r: radius + 1.5, fill: "none", stroke: CHOSEN, "stroke-width": 2.5, "pointer-events": "none" });
  const title = place.querySelector("h4"), facts = place.querySelector("dl");
  svg.setAttribute("role", "application");
  const tell = (agent) => {
    const k = run.agents.indexOf(agent), friends = near.get(agent), rows = [];
    title.textContent = `Agent ${agent}`;
    if (run.private) rows.push(["Epsilon spent", k < 0 ? "not known here" : run.spent[k]]);
    if (own.edges) rows.push(["Neighbours", friends.length > 12 ? `${friends.length}: ${friends.slice(0, 12).join(", ")} …` : friends.join(", ") || "none"]);
    rows.push(["Ledger", (k >= 0 && run.results[k]) || "not in this folder"]);
    facts.replaceChildren(...rows.flatMap(([name, value]) => [el("dt", null, name), el("dd", null, value)]));
    svg.setAttribute("aria-label", `Graph of ${nodes.length} agents. Agent ${agent} is chosen. ${rows.map((row) => row.join(": ")).join(". ")}. Arrow keys choose another.`);
  };
  const mark = () => {
    const agent = chosen();
    if (!index.has(agent)) return;
    lines.setAttribute("d", near.get(agent).map((other) => `M${spot(agent)}L${spot(other)}`).join(""));
    const [x, y] = spot(agent).split(" ");
    ring.setAttribute("cx", x); ring.setAttribute("cy", y);
    tell(agent);
  };
  const agentOf = (event) => Number((event.target.dataset || {}).agent ?? -1);
  svg.addEventListener("click", (event) => choose(agentOf(event)));
  svg.addEventListener("pointerover", (event) => { if (index.has(agentOf(event))) tell(agentOf(event)); });
  svg.addEventListener("pointerleave", mark);
  keys(svg, () => index.get(chosen()), nodes.length, (k) => choose(nodes[(k + nodes.length) % nodes.length]));
  return mark;
}

// ledgers

function book(run, agent) {
  const k = run.agents.indexOf(agent), ledger = run.ledger, history = ledger.of[agent];
  const head = [el("h4", null, `${run.agents.length > 1 ? `Agent ${agent}: ` : ""}${run.files[k]}`), el("p", null, `Verified: ${run.results[k]}.`)];
  const command = `admmnet ledger show RUN --agent ${agent} --events prints each line.`;
  if (history === undefined) return [...head, el("p", { class: "alarm" }, `There is no room for its lines on this page: ${command}`)];
  head.push(el("p", null, `Rounds with equal events share a row; totals are those behind the last of them. ${command}`));
  const flat = ledger.rows[history], rows = [];
  for (let at = 0; at < flat.length; at += 3) rows.push([ledger.rounds[flat[at]], ledger.whats[flat[at + 1]], ledger.totals[flat[at + 2]]]);
  if (!rows.length) return [...head, el("p", null, "No event: nothing was charged.")];
  const published = rows.some(([, , total]) => total[2] !== NONE);
  const names = [`${run.unit}s`, "total ε spent", ...(published ? ["total paper's ε"] : []),
    "What was released", "rho", ...(published ? ["paper's rho"] : []), "total rho"];
  const words = published ? 3 : 2;  // the column of words
  const body = el("tbody"), table = el("table", { class: "lines" }, el("thead", null, el("tr", null, ...names.map((name, j) => el("th", { scope: "col", class: j === words ? "t" : null }, name)))), body);
  const more = el("button", { type: "button", class: "more" });
  let done = 0;
  const add = (most) => {
    for (const [when, [kinds, rho, paper], [sum, spent, claimed]] of rows.slice(done, done + most)) {
      const what = el("td", { class: "t" });
      for (const [times, mechanism, parameters] of kinds) {
        what.append(el("div", null, `${times > 1 ? `${times} × ` : ""}${mechanism}: ${DATA.released[mechanism]}`));
        if (parameters) what.append(el("small", null, parameters));
      }
      const cells = [when, spent, ...(published ? [claimed] : []), what, rho, ...(published ? [paper] : []), sum];
      body.append(el("tr", null, ...cells.map((cell) => (cell === what ? cell : el("td", null, cell)))));
    }
    done = Math.min(rows.length, done + most);
    more.hidden = done === rows.length;
    more.textContent = `Show the other ${rows.length - done} rows`;
  };
  add(CHUNK);
  more.addEventListener("click", () => add(rows.length));
  printing.push(() => { if (body.isConnected && rows.length <= 2000) add(rows.length); });
  return [...head, el("div", { class: "scroll" }, table), more];
}

// one run

function open(root) {
  const run = DATA.runs[Number(root.dataset.run)];
  if (!run.agents.length) return;
  let agent = run.agents[0];
  const chosen = () => (run.agents.length > 1 ? agent : null), redraws = [];
  const shelf = root.querySelector(".book"), table = root.querySelector(".sortable"), input = root.querySelector(".chooser input");
  const body = table.tBodies[0], rowOf = new Map([...body.rows].map((row) => [run.agents[Number(row.dataset.a)], row]));
  let current = null;
  const choose = (wanted) => {
    if (!rowOf.has(wanted)) return;
    agent = wanted;
    if (current) { current.removeAttribute("aria-current"); current.querySelector("button").tabIndex = -1; }
    current = rowOf.get(agent);
    if (run.agents.length > 1) current.setAttribute("aria-current", "true");
    current.querySelector("button").tabIndex = 0;
    if (input && Number(input.value) !== agent) input.value = agent;
    shelf.replaceChildren(...book(run, agent));
    for (const redraw of redraws) redraw();
  };
  for (const own of run.charts) redraws.push(chart(own, chosen));
  if (run.graph) redraws.push(network(run, root.querySelector(".drawing"), choose, chosen));
  sortable(table, body);
  body.addEventListener("click", (event) => { const row = event.target.closest("tr"); if (row) choose(run.agents[Number(row.dataset.a)]); });
  body.addEventListener("keydown", (event) => {
    const row = event.target.closest("tr"), go = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (!row || !go || !row[go]) return;
    event.preventDefault();
    choose(run.agents[Number(row[go].dataset.a)]);
    current.querySelector("button").focus();
  });
  if (input) input.addEventListener("change", () => {
    const wanted = Number(input.value);
    choose(run.agents.reduce((best, other) => (Math.abs(other - wanted) < Math.abs(best - wanted) ? other : best)));
    input.value = agent;
  });
  choose(agent);
  // a print has no mouse: of few agents every ledger is on it
  let held = null;
  printing.push(() => {
    const lines = run.agents.reduce((sum, _, k) => { const h = run.ledger.of[run.agents[k]]; return sum + (h === undefined ? 1 : run.ledger.rows[h].length / 3); }, 0);
    if (lines <= 300) { held = agent; shelf.replaceChildren(...run.agents.flatMap((each) => book(run, each))); for (const button of shelf.querySelectorAll(".more:not([hidden])")) button.click(); }
    else shelf.prepend(el("p", null, `Printed is the ledger of agent ${agent}; all ${run.agents.length} are in the page on the screen, and in the run folder.`));
  });
  window.addEventListener("afterprint", () => choose(held === null ? agent : held));
}

function sortable(table, body) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of heads) other.setAttribute("aria-sort", other === head ? (down ? "descending" : "ascending") : "none");
    const text = !head.dataset.key, value = (row) => text ? row.cells[column].textContent : row.cells[column].dataset.v;
    const keyed = [...body.rows].map((row) => { const own = value(row); return [own === undefined || own === "" ? null : text ? own : Number(own), Number(row.dataset.a), row]; });
    keyed.sort(([a, i], [b, j]) => {
      if (a === null || b === null) return (a === null) - (b === null) || i - j;  // what is not known comes last
      return (a < b ? -1 : a > b ? 1 : 0) * (down ? -1 : 1) || i - j;
    });
    body.append(...keyed.map(([, , row]) => row));
  }));
}

for (const own of DATA.versus) chart(own, () => null);
const started = new Set();
const start = (root) => { if (!started.has(root)) { started.add(root); open(root); } };
for (const root of document.querySelectorAll(".run")) {
  const outer = root.closest("details.whole");
  if (outer && !outer.open) outer.addEventListener("toggle", () => start(root));
  else start(root);
}
const reveal = () => {
  const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const outer = target && target.closest("details.whole");
  if (outer && !outer.open) { outer.open = true; target.scrollIntoView(); }
};
window.addEventListener("hashchange", reveal); reveal();
let shut = [];
window.addEventListener("beforeprint", () => {
  shut = [...document.querySelectorAll("details:not([open])")];
  for (const part of shut) part.open = true;
  for (const root of document.querySelectorAll(".run")) start(root);
  for (const ready of [...printing]) ready();
});
window.addEventListener("afterprint", () => { for (const part of shut) part.open = false; });
document.documentElement.dataset.ready = "yes";
})();
