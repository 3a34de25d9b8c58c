"use strict";
(() => {
const DATA = JSON.parse(document.getElementById("data").textContent);
const NS = "http://www.w3.org/2000/svg", CHOSEN = "#B35900";
const CHUNK = 200;  // rows of a ledger at a time
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
// small numbers with an exponent, as 3.386e-6
const short = (value, digits = 4) => {
  if (!known(value)) return "–";
  const brief = Number(value.toPrecision(digits));
  return brief !== 0 && Math.abs(brief) < 1e-4 ? brief.toExponential() : String(brief);
};
// an epsilon is rounded up: it must not look smaller than it is
const above = (value) => known(value) ? String(Math.ceil(value * 1000 - 1e-6 * Math.max(1, value)) / 1000) : "–";

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
  const read = own.percent ? (value) => `${value.toFixed(2)} %` : own.name === "privacy" ? above : (value) => short(value, 5);
  const mine = draw(svg, "path", { fill: "none", stroke: CHOSEN, "stroke-width": 1.7 }), cross = draw(svg, "path", { class: "cross" });
  const reset = () => { cross.setAttribute("d", ""); readout.textContent = ""; at = -1; };
  let at = -1;
  const history = () => own.each && known(chosen()) && known(own.each.of[chosen()]) ? own.each.lines[own.each.of[chosen()]] : null;
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
    const lines = history() ? [...own.lines, [`agent ${chosen()}`, own.rounds, history()]] : own.lines;
    const said = lines.map(([name, xs, ys]) => [name, ys[xs.indexOf(stops[at])]]).filter(([, value]) => known(value));
    readout.textContent = `${own.unit} ${stops[at]}: ` + said.map(([name, value]) => `${name} ${read(value)}`).join(" · ");
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
    figure.querySelector(".mine").textContent = history() ? `agent ${chosen()}` : "";
    if (history()) history().forEach((y, k) => {
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
    if (run.private) rows.push(["Epsilon spent", known(run.spent[k]) ? above(run.spent[k]) : "not known here"]);
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

function pattern(ledger, number) {
  const flat = ledger.patterns[number], found = [];
  for (let k = 0; k < flat.length; k += 2) found.push([ledger.kinds[flat[k]], flat[k + 1]]);
  return found;
}

function book(run, agent) {
  const k = run.agents.indexOf(agent), file = run.files[k], ledger = run.ledger;
  const head = [el("h4", null, `${run.agents.length > 1 ? `Agent ${agent}: ` : ""}${file || "no ledger in this folder"}`)];
  if (!file) return [...head, el("p", null, "Its ledger is not in this folder; what it spent stands there.")];
  const history = ledger.of[file];
  if (history === undefined) return [...head, el("p", { class: "alarm" }, run.results[k])];
  head.push(el("p", null, `Verified: ${run.results[k]}.`));
  if (ledger.form === "rounds") head.push(el("p", null, "Neighbouring rounds with equal events share a row; totals are those behind the last of them. "
    + `admmnet ledger show RUN --agent ${agent} --events prints each line.`));
  if (ledger.form === "blocks") head.push(el("p", null, "There are very many events, so several rounds share a row; totals are those behind the last of them. "
    + `admmnet ledger show RUN --agent ${agent} --events prints each line.`));
  head.push(el("p", null, "Parameters have six digits here; the file has all."));
  const flat = ledger.rows[history], rows = [];
  for (let at = 0; at < flat.length; at += 5) rows.push(flat.slice(at, at + 5));
  if (!rows.length) return [...head, el("p", null, "No event: nothing was charged.")];
  const costs = ledger.form !== "blocks", published = rows.some((row) => known(ledger.totals[row[4]][2]));
  const names = [ledger.form === "lines" ? run.unit : `${run.unit}s`, "total ε spent", ...(published ? ["total paper's ε"] : []),
    "What was released", ...(costs ? ["rho"] : []), ...(costs && published ? ["paper's rho"] : []), "total rho"];
  const words = published ? 3 : 2;  // the column of words
  const body = el("tbody"), table = el("table", { class: "lines" }, el("thead", null, el("tr", null, ...names.map((name, j) => el("th", { scope: "col", class: j === words ? "t" : null }, name)))), body);
  const resumes = ledger.resumes[file] || [];
  let done = 0, events = 0, passed = 0;
  const mark = () => {
    while (passed < resumes.length && events >= resumes[passed][1]) {
      body.append(el("tr", { class: "mark" }, el("td", { colspan: names.length }, `The run was interrupted here and went on from round ${resumes[passed][0]}; rounds that come again are charged again.`)));
      passed++;
    }
  };
  const more = el("button", { type: "button", class: "more" });
  const add = (most) => {
    for (const row of rows.slice(done, done + most)) {
      mark();
      const [first, last, number, times, total] = row, parts = pattern(ledger, number), sums = ledger.totals[total];
      const what = el("td", { class: "t" });
      for (const [kind, each] of parts) {
        const times_ = each * times;
        what.append(el("div", null, `${times_ > 1 ? `${times_} × ` : ""}${kind[0]}: ${DATA.released[kind[0]] || "?"}`));
        const values = Object.entries(kind[1]).map(([name, value]) => `${name} ${typeof value === "number" ? short(value, 6) : value}`).join(", ");
        if (values) what.append(el("small", null, values));
        events += times_;
      }
      const costOf = (j) => parts.every(([kind]) => known(kind[j])) ? short(parts.reduce((sum, [kind, each]) => sum + kind[j] * each, 0) * times) : run.private ? "–" : "infinite";
      const cells = [
        first === last ? String(first) : `${first}–${last}`, run.private ? above(sums[1]) : "infinite", ...(published ? [short(sums[2], 5)] : []), what,
        ...(costs ? [costOf(2)] : []), ...(costs && published ? [costOf(4)] : []), known(sums[0]) ? short(sums[0], 5) : "infinite",
      ];
      body.append(el("tr", null, ...cells.map((cell) => (cell === what ? cell : el("td", null, cell)))));
    }
    done = Math.min(rows.length, done + most);
    if (done === rows.length) mark();
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
    const lines = run.agents.reduce((sum, _, k) => { const h = run.ledger.of[run.files[k]]; return sum + (h === undefined ? 1 : run.ledger.rows[h].length / 5); }, 0);
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
