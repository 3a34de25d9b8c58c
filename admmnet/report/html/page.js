"use strict";
(() => {
const DATA = JSON.parse(document.getElementById("data").textContent);
const NS = "http://www.w3.org/2000/svg";
// Okabe and Ito's colours, darkened where white would swallow them; dashes say the same again
const COLOURS = ["#0072B2", "#C44E00", "#007A58", "#9C4A7D", "#8A6500", "#1F7FB5", "#444444"];
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "12 4", "4 2", "1 2"];
const MANY = 40;  // agents whose lines are drawn one by one
const CHUNK = 200;  // rows of a ledger at a time
const printing = [];

// elements: text goes in as text, never as markup

function el(name, attributes, ...content) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {}))
    if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  node.append(...content.filter((part) => part !== null));
  return node;
}

function draw(parent, name, attributes, text) {
  const node = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== null && value !== undefined) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  if (parent) parent.append(node);
  return node;
}

const known = (value) => value !== null && value !== undefined;
// small numbers with an exponent, as 3.386e-6
const short = (value, digits = 4) => {
  if (!known(value)) return "–";
  const brief = Number(value.toPrecision(digits));
  return brief !== 0 && Math.abs(brief) < 1e-4 ? brief.toExponential() : String(brief);
};
const percent = (value) => known(value) ? `${(100 * value).toFixed(2)} %` : "–";
// an epsilon is rounded up: it must not look smaller than it is
const above = (value) => known(value) ? String(Math.ceil(value * 1000 - 1e-6 * Math.max(1, value)) / 1000) : "–";

// scales

function ticks(low, high, most) {
  const raw = (high - low) / Math.max(1, most);
  if (!(raw > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 5, 10].find((factor) => power * factor >= raw * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(Number((k * step).toPrecision(12)));
  return found;
}

function extent(lists) {
  let low = Infinity, high = -Infinity;
  for (const list of lists) for (const value of list) if (known(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  return [low, high];
}

function path(xs, ys, step) {
  let word = "", open = false;
  xs.forEach((x, k) => {
    if (!known(ys[k])) { open = false; return; }
    word += !open ? `M${x.toFixed(1)} ${ys[k].toFixed(1)}` : step ? `H${x.toFixed(1)}V${ys[k].toFixed(1)}` : `L${x.toFixed(1)} ${ys[k].toFixed(1)}`;
    open = true;
  });
  return word;
}

// line charts: spec = {title, unit, axis, format, step, zero, lines: [{name, xs, ys, low, high, colour, dash, width}],
//   thin: () => [{xs, ys, strong, name}], rule: {value, name}}

function chart(place, spec) {
  const figure = el("figure", null, el("figcaption", null, spec.title + " ", el("small", null, spec.unit)));
  const legend = el("div", { class: "legend" });
  const box = el("div"), readout = el("p", { class: "readout", "aria-live": "polite" });
  figure.append(legend, box, readout);
  place.append(figure);
  let drawn = 0;
  const paint = (width) => {
    drawn = width;
    box.replaceChildren(plot(spec, width, readout));
    legend.replaceChildren(...legendOf(spec));
  };
  const fit = () => { const width = Math.round(box.clientWidth); if (width > 0 && Math.abs(width - drawn) > 1) paint(width); };
  fit();
  new ResizeObserver(fit).observe(box);
  const redraw = () => { if (drawn) paint(drawn); };
  printing.push(() => { if (!drawn) paint(480); });
  return redraw;
}

function sample(line) {
  const svg = draw(null, "svg", { viewBox: "0 0 26 10", "aria-hidden": "true" });
  if (line.block) draw(svg, "rect", { x: 2, y: 0, width: 20, height: 10, fill: line.colour });
  else {
    if (line.low) draw(svg, "rect", { x: 0, y: 0, width: 26, height: 10, fill: line.colour, opacity: 0.16 });
    draw(svg, "path", { d: "M0 5H26", stroke: line.colour, "stroke-width": line.width || 2, "stroke-dasharray": line.dash || null });
  }
  return svg;
}

function legendOf(spec) {
  const items = spec.lines.map((line) => el("span", null, sample(line), line.name));
  const strong = spec.thin ? spec.thin().find((line) => line.strong) : null;
  if (strong) items.push(el("span", null, sample({ colour: "#B35900", width: 2.5 }), strong.name));
  if (spec.rule) items.push(el("span", null, sample({ colour: "#4a5763", dash: "6 4", width: 1.2 }), spec.rule.name));
  return items;
}

function plot(spec, width, readout) {
  const height = Math.max(200, Math.min(300, Math.round(width * 0.56)));
  const thin = spec.thin ? spec.thin() : [];
  const all = [...spec.lines.flatMap((line) => [line.ys, line.low || [], line.high || []]), ...thin.map((line) => line.ys)];
  if (spec.rule) all.push([spec.rule.value]);
  let [low, high] = extent(all);
  if (!Number.isFinite(low)) { low = 0; high = 1; }
  if (spec.zero) low = Math.min(0, low);
  if (high - low < 1e-12) { high += Math.abs(high) * 0.05 || 0.5; low -= spec.zero ? 0 : Math.abs(low) * 0.05; }
  const pad = 0.04 * (high - low);
  high += pad; if (!spec.zero) low -= pad;
  const [first, last] = extent([...spec.lines.map((line) => line.xs), ...thin.map((line) => line.xs)]);
  const marks = ticks(low, high, Math.max(4, height / 44)), words = marks.map(spec.format || ((v) => short(v)));
  const left = 14 + 7.2 * Math.max(...words.map((word) => word.length)), right = width - 12, top = 8, bottom = height - 36;
  const X = (x) => last === first ? (left + right) / 2 : left + (x - first) / (last - first) * (right - left);
  const Y = (y) => known(y) ? bottom - (y - low) / (high - low) * (bottom - top) : null;
  const svg = draw(null, "svg", {
    viewBox: `0 0 ${width} ${height}`, tabindex: 0, role: "img",
    "aria-label": `${spec.title}, ${spec.unit}, over ${spec.axis}s ${first} to ${last}. ` + spoken(spec) + " Arrow keys read single values.",
  });
  marks.forEach((mark, k) => {
    draw(svg, "path", { d: `M${left} ${Y(mark).toFixed(1)}H${right}`, class: "grid" });
    draw(draw(svg, "g", { class: "tick" }), "text", { x: left - 6, y: Y(mark) + 4, "text-anchor": "end" }, words[k]);
  });
  draw(svg, "path", { d: `M${left} ${bottom}H${right}`, class: "axis" });
  for (const mark of ticks(first, last, Math.max(2, width / 75)).filter(Number.isInteger)) {
    draw(svg, "path", { d: `M${X(mark).toFixed(1)} ${bottom}v4`, class: "axis" });
    draw(draw(svg, "g", { class: "tick" }), "text", { x: X(mark), y: bottom + 17, "text-anchor": "middle" }, String(mark));
  }
  draw(svg, "text", { x: (left + right) / 2, y: height - 3, "text-anchor": "middle" }, spec.axis);
  for (const line of spec.lines) if (line.low) draw(svg, "path", { d: band(line, X, Y, spec.step), fill: line.colour, opacity: 0.14, stroke: "none" });
  for (const line of thin) if (!line.strong)
    draw(svg, "path", { d: path(line.xs.map(X), line.ys.map(Y), spec.step), fill: "none", stroke: "#8795a1", "stroke-width": 0.8, opacity: 0.75 });
  if (spec.rule) draw(svg, "path", { d: `M${left} ${Y(spec.rule.value)}H${right}`, stroke: "#4a5763", "stroke-width": 1.2, "stroke-dasharray": "6 4" });
  const strokes = [...spec.lines, ...thin.filter((line) => line.strong).map((line) => ({ ...line, colour: "#B35900", width: 2.5 }))];
  for (const line of strokes) {
    const ys = line.ys.map(Y), xs = line.xs.map(X);
    draw(svg, "path", { d: path(xs, ys, spec.step), fill: "none", stroke: line.colour, "stroke-width": line.width || 2, "stroke-dasharray": line.dash || null, "stroke-linejoin": "round" });
    if (ys.filter(known).length === 1) ys.forEach((y, k) => { if (known(y)) draw(svg, "circle", { cx: xs[k], cy: y, r: 3.5, fill: line.colour }); });
  }
  const cross = draw(svg, "path", { class: "cross", d: "" });
  const stops = [...new Set(strokes.flatMap((line) => line.xs))].sort((a, b) => a - b);
  let at = -1;
  const show = (k) => {
    if (!stops.length) return;
    at = Math.max(0, Math.min(stops.length - 1, k));
    cross.setAttribute("d", `M${X(stops[at]).toFixed(1)} ${top}V${bottom}`);
    const said = strokes.map((line) => [line.name, reading(line, stops[at], spec.step)]).filter(([, value]) => known(value));
    readout.textContent = `${spec.axis} ${stops[at]}: ` + said.map(([name, value]) => `${name} ${(spec.read || spec.format || short)(value)}`).join(" · ");
  };
  svg.addEventListener("pointermove", (event) => {
    const x = (event.clientX - svg.getBoundingClientRect().left) * width / svg.getBoundingClientRect().width;
    let best = 0;
    stops.forEach((stop, k) => { if (Math.abs(X(stop) - x) < Math.abs(X(stops[best]) - x)) best = k; });
    show(best);
  });
  svg.addEventListener("pointerleave", () => { cross.setAttribute("d", ""); readout.textContent = ""; at = -1; });
  svg.addEventListener("keydown", (event) => {
    const go = { ArrowRight: at + 1, ArrowLeft: at < 0 ? stops.length - 1 : at - 1, Home: 0, End: stops.length - 1 }[event.key];
    if (go === undefined) return;
    event.preventDefault(); show(go);
  });
  return svg;
}

function reading(line, x, step) {
  let found = null;
  line.xs.forEach((own, k) => { if (own === x || (step && own < x)) found = line.ys[k]; });
  return found;
}

function spoken(spec) {
  return spec.lines.map((line) => {
    const there = line.ys.filter(known);
    return there.length ? `${line.name}: ${(spec.read || spec.format || short)(there[0])} at first, ${(spec.read || spec.format || short)(there[there.length - 1])} at last.` : "";
  }).join(" ");
}

function band(line, X, Y, step) {
  const places = line.xs.map((_, k) => k).filter((k) => known(line.low[k]) && known(line.high[k]));
  if (!places.length) return "";
  const corner = (k, at, values) => `${X(line.xs[k]).toFixed(1)} ${Y(values[at]).toFixed(1)}`;
  // of a step the old value holds up to the new place
  const edge = (values) => places.flatMap((k, j) => (step && j ? [corner(k, places[j - 1], values)] : []).concat(corner(k, k, values)));
  return `M${[...edge(line.high), ...edge(line.low).reverse()].join("L")}Z`;
}

// the charts of one run

const KINDS = [
  ["error", "Test error"], ["loss", "Training loss"], ["gap", "Consensus gap"],
  ["spent", "Epsilon spent"], ["published", "Epsilon by the paper's arithmetic"],
];
const UNITS = { loss: "nats", gap: "2-norm of the distance from the average", spent: "proven, an odometer reading", published: "a claim, for comparison" };
const NETS = { error: "agents' average vector", loss: "agents' average vector", gap: "largest agent", spent: "largest agent", published: "largest agent" };

function unitOf(kind, run) { return kind === "error" ? (run.percent ? "share of the test records, %" : "mean squared error") : UNITS[kind]; }
function formatOf(kind, run) { return kind === "error" && run.percent ? (value) => `${Number((100 * value).toPrecision(4))} %` : (value) => short(value); }
function readOf(kind, run) { return kind === "error" && run.percent ? percent : kind === "spent" ? above : (value) => short(value, 5); }

function lineCharts(run, place, chosen) {
  const series = run.series, redraws = [];
  for (const [kind, title] of KINDS) {
    const own = series && series.of[kind];
    if (!own) continue;
    const alone = run.agents.length === 1, rounds = series.rounds, picked = series.pick.map((k) => rounds[k]);
    const thin = () => {
      if (alone) return [];
      const one = (agent, strong) => ({ xs: picked, ys: own.each.lines[own.each.of[agent]], strong, name: `agent ${agent}` });
      const agents = run.agents.filter((agent) => agent < own.each.of.length);
      const grey = agents.length <= MANY ? agents.filter((agent) => agent !== chosen()).map((agent) => one(agent, false)) : [];
      return [...grey, ...(chosen() !== null && chosen() < own.each.of.length ? [one(chosen(), true)] : [])];
    };
    redraws.push(chart(place, {
      title, unit: unitOf(kind, run), axis: run.unit, format: formatOf(kind, run), read: readOf(kind, run),
      step: kind === "spent" || kind === "published", zero: kind === "spent" || kind === "published" || kind === "gap",
      rule: kind === "spent" && known(run.limit) ? { value: run.limit, name: `promise ${above(run.limit)}` } : null,
      lines: [{
        name: alone ? title.toLowerCase() : NETS[kind] + (run.agents.length > MANY ? "; band: all agents" : ""), xs: rounds, ys: own.net, colour: COLOURS[0],
        low: alone || run.agents.length <= MANY ? null : own.low, high: own.high,
      }],
      thin,
    }));
  }
  if (series && series.raster) redraws.push(raster(run, place, chosen));
  return redraws;
}

// who spoke when

const SHADES = { "-1": null, 0: "#e6eaee", 1: "#0072B2", 2: "#b9c2cb", 3: "#E69F00", 4: "#ffffff", 5: "#1a232c" };

function raster(run, place, chosen) {
  const own = run.series.raster, rows = own.rows, count = own.rounds.length;
  const seen = [...new Set(rows.join(""))].map((digit) => digit - 1).filter((state) => SHADES[state]).sort();
  const figure = el("figure", null, el("figcaption", null, "Broadcasts ", el("small", null, "who spoke when, a row an agent")));
  const legend = el("div", { class: "legend" }, ...seen.map((state) => el("span", null, sample({ block: true, colour: SHADES[state] }), DATA.states[state])));
  const box = el("div"), readout = el("p", { class: "readout", "aria-live": "polite" });
  figure.append(legend, box, readout); place.append(figure);
  let drawn = 0;
  const paint = (width) => {
    drawn = width;
    const high = rows.length <= 20 ? 18 : Math.max(0.25, Math.min(18, 320 / rows.length)), left = 14 + 7.2 * String(rows.length - 1).length + 8;
    const right = width - 12, wide = (right - left) / count, height = 8 + high * rows.length + 36, gap = high > 8 ? 1.5 : 0, side = wide > 8 ? 1.5 : 0;
    const spoke = rows.reduce((sum, row) => sum + [...row].filter((digit) => digit === "2").length, 0);
    const svg = draw(null, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0, "aria-label": `Broadcasts: in ${spoke} of ${rows.length * count} cells an agent spoke. Arrow keys read single agents.` });
    for (const state of seen) {
      let word = "";
      rows.forEach((row, agent) => {
        for (let k = 0; k < count; k++) {
          if (row[k] - 1 !== state) continue;
          let end = k; while (!side && end + 1 < count && row[end + 1] === row[k]) end++;
          word += `M${(left + wide * k).toFixed(2)} ${(8 + high * agent).toFixed(2)}h${(wide * (end - k + 1) - side).toFixed(2)}v${(high - gap).toFixed(2)}h${(-wide * (end - k + 1) + side).toFixed(2)}z`;
          k = end;
        }
      });
      draw(svg, "path", { d: word, fill: SHADES[state], stroke: state === 4 ? "#7b8794" : null, "stroke-width": 0.5 });
    }
    const bottom = 8 + high * rows.length;
    for (const agent of rows.length <= 20 ? rows.keys() : ticks(0, rows.length - 1, 6))
      draw(draw(svg, "g", { class: "tick" }), "text", { x: left - 6, y: 8 + high * agent + Math.min(high, 18) / 2 + 4, "text-anchor": "end" }, String(agent));
    for (const k of ticks(0, count - 1, Math.max(2, width / 75)).filter(Number.isInteger))
      draw(draw(svg, "g", { class: "tick" }), "text", { x: left + wide * (k + 0.5), y: bottom + 17, "text-anchor": "middle" }, String(own.rounds[k]));
    draw(svg, "text", { x: (left + right) / 2, y: height - 3, "text-anchor": "middle" }, own.block > 1 ? `${run.unit} (${own.block} to a cell)` : run.unit);
    if (chosen() !== null && chosen() < rows.length)
      draw(svg, "rect", { x: left - 2, y: 8 + high * chosen() - 2, width: right - left + 4, height: Math.max(high - gap, 1) + 4, fill: "none", stroke: "#B35900", "stroke-width": 2 });
    let agent = -1;
    const tell = (i, k) => {
      agent = Math.max(0, Math.min(rows.length - 1, i));
      const times = [...rows[agent]].filter((digit) => digit === "2").length;
      readout.textContent = `agent ${agent}: spoke in ${times} of ${count}` + (k >= 0 && k < count ? `; ${run.unit} ${own.rounds[k]}: ${DATA.states[rows[agent][k] - 1]}` : "");
    };
    svg.addEventListener("pointermove", (event) => {
      const frame = svg.getBoundingClientRect(), scale = width / frame.width;
      tell(Math.floor(((event.clientY - frame.top) * scale - 8) / high), Math.floor(((event.clientX - frame.left) * scale - left) / wide));
    });
    svg.addEventListener("pointerleave", () => { readout.textContent = ""; });
    svg.addEventListener("keydown", (event) => {
      const go = { ArrowDown: agent + 1, ArrowUp: agent - 1, Home: 0, End: rows.length - 1 }[event.key];
      if (go !== undefined) { event.preventDefault(); tell(go, -1); }
    });
    box.replaceChildren(svg);
  };
  const fit = () => { const width = Math.round(box.clientWidth); if (width > 0 && Math.abs(width - drawn) > 1) paint(width); };
  fit(); new ResizeObserver(fit).observe(box);
  printing.push(() => { if (!drawn) paint(480); });
  return () => { if (drawn) paint(drawn); };
}

// the graph

function shade(share) {  // pale to dark blue: the darker, the more was spent
  const low = [226, 238, 248], high = [8, 48, 107], way = Math.max(0, Math.min(1, share));
  return `rgb(${low.map((value, k) => Math.round(value + (high[k] - value) * way)).join(",")})`;
}

function network(run, place, choose, chosen) {
  const own = run.graph, nodes = run.nodes, count = nodes.length;
  const spent = new Map(run.agents.map((agent, k) => [agent, run.spent[k]]));
  const most = Math.max(...run.spent.filter(known), 0), top = Math.max(most, run.limit || 0) || 1;
  const radius = Math.max(4, Math.min(26, (count > 100 ? 240 : 400) / Math.sqrt(count))), size = 1000 + 4 * radius;
  const [, wide] = extent([own.xy.filter((_, k) => k % 2 === 0)]), [, tall] = extent([own.xy.filter((_, k) => k % 2 === 1)]);
  const X = (k) => own.xy[2 * k] + (1000 - wide) / 2 + 2 * radius, Y = (k) => own.xy[2 * k + 1] + 2 * radius, height = tall + 4 * radius;
  const index = new Map(nodes.map((agent, k) => [agent, k])), near = new Map(nodes.map((agent) => [agent, []]));
  const svg = draw(null, "svg", { viewBox: `0 0 ${size} ${height.toFixed(0)}`, role: "application", tabindex: 0 });
  let word = "";
  if (own.edges) for (let k = 0; k < own.edges.length; k += 2) {
    const [a, b] = [own.edges[k], own.edges[k + 1]];
    near.get(a).push(b); near.get(b).push(a);
    word += `M${X(index.get(a))} ${Y(index.get(a))}L${X(index.get(b))} ${Y(index.get(b))}`;
  }
  const lines = own.edges ? own.edges.length / 2 : 0;
  draw(svg, "path", { d: word, fill: "none", stroke: "#8795a1", "stroke-width": lines > 2000 ? 0.6 : lines > 100 ? 1.2 : 2.5, opacity: lines > 2000 ? 0.55 : 0.9 });
  const strong = draw(svg, "path", { d: "", fill: "none", stroke: "#B35900", "stroke-width": count > 100 ? 3 : 5 });
  const many = count > 60;
  const circles = new Map();
  nodes.forEach((agent, k) => {
    const value = spent.get(agent), there = known(value);
    const circle = draw(svg, "circle", {
      cx: X(k), cy: Y(k), r: radius, fill: there ? shade(value / top) : "#ffffff", stroke: "#1a232c",
      "stroke-width": count > 200 ? 0.8 : 1.8, "stroke-dasharray": there || !run.private ? null : "5 4", "data-agent": agent,
    });
    circles.set(agent, circle);
    if (count <= 60) {
      const dark = there && value / top > 0.5;
      const label = draw(svg, "text", { x: X(k), y: Y(k) + radius * 0.36, "text-anchor": "middle", "font-size": radius * (String(agent).length > 2 ? 0.75 : 1), "pointer-events": "none" }, String(agent));
      label.style.fill = dark ? "#fff" : "#1a232c";
    }
  });
  const title = el("h4", { "aria-live": "polite" }), facts = el("dl");
  const key = draw(null, "svg", { viewBox: "0 0 220 44", role: "img", "aria-label": `Colours from epsilon 0, pale, to ${above(top)}, dark` });
  if (run.private) {
    for (let k = 0; k < 44; k++) draw(key, "rect", { x: 1 + 5 * k, y: 1, width: 5.5, height: 14, fill: shade(k / 43) });
    draw(key, "text", { x: 0, y: 32 }, "0"); draw(key, "text", { x: 221, y: 32, "text-anchor": "end" }, above(top)); draw(key, "text", { x: 110, y: 32, "text-anchor": "middle" }, "epsilon spent");
  }
  const tell = (agent) => {
    title.textContent = `Agent ${agent}`;
    const place_ = run.agents.indexOf(agent), friends = near.get(agent);
    const rows = [];
    if (run.private) rows.push(["Epsilon spent", known(spent.get(agent)) ? above(spent.get(agent)) : "not known here"]);
    if (own.edges) rows.push(["Neighbours", friends.length > 12 ? `${friends.length}: ${friends.slice(0, 12).join(", ")} …` : friends.join(", ") || "none"]);
    rows.push(["Ledger", place_ < 0 || !run.results[place_] ? "not in this folder" : run.results[place_]]);
    facts.replaceChildren(...rows.flatMap(([name, value]) => [el("dt", null, name), el("dd", null, value)]));
    svg.setAttribute("aria-label", `Graph of ${count} agents and ${own.edges ? lines : "many"} edges. Agent ${agent} is chosen. ${rows.map((row) => row.join(": ")).join(". ")}. Arrow keys choose another.`);
  };
  const mark = () => {
    const agent = chosen();
    if (agent === null || !circles.has(agent)) return;
    const k = index.get(agent);
    strong.setAttribute("d", near.get(agent).map((j) => `M${X(k)} ${Y(k)}L${X(index.get(j))} ${Y(index.get(j))}`).join(""));
    const friends = new Set(near.get(agent));
    for (const [other, circle] of circles) {
      const own_ = other === agent, friend = many && friends.has(other);
      circle.setAttribute("stroke", own_ || friend ? "#B35900" : "#1a232c");
      circle.setAttribute("stroke-width", own_ ? Math.max(4, radius / 4) : friend ? 3 : count > 200 ? 0.8 : 1.8);
      circle.setAttribute("r", own_ ? radius * (many ? 1.5 : 1.2) : radius);
    }
    if (many) svg.append(strong, ...[...friends].map((other) => circles.get(other)), circles.get(agent));
    tell(agent);
  };
  svg.addEventListener("click", (event) => { const agent = event.target.dataset && event.target.dataset.agent; if (agent !== undefined) choose(Number(agent)); });
  svg.addEventListener("pointerover", (event) => { const agent = event.target.dataset && event.target.dataset.agent; if (agent !== undefined) tell(Number(agent)); });
  svg.addEventListener("pointerleave", mark);
  svg.addEventListener("keydown", (event) => {
    const k = nodes.indexOf(chosen());
    const go = { ArrowRight: k + 1, ArrowDown: k + 1, ArrowLeft: k - 1, ArrowUp: k - 1, Home: 0, End: count - 1 }[event.key];
    if (go === undefined) return;
    event.preventDefault(); choose(nodes[(go + count) % count]);
  });
  const missing = own.edges ? null : el("p", null, "The graph has too many edges to draw; its nodes are shown alone.");
  place.append(el("div", { class: "drawing" }, svg, el("div", null, run.private ? key : null, missing, title, facts)));
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
  const place = root.querySelector(".charts"), shelf = root.querySelector(".book"), table = root.querySelector(".sortable");
  const input = root.querySelector(".chooser input"), canvas = root.querySelector(".network");
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
  if (place) redraws.push(...lineCharts(run, place, chosen));
  if (canvas && run.graph) redraws.push(network(run, canvas, choose, chosen));
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

// several runs

function versus(place) {
  for (const [kind, title] of KINDS.slice(0, 4)) {
    const runs = DATA.runs.filter((run) => run.series && run.series.of[kind]);
    if (!runs.length) continue;
    for (const units of [...new Set(runs.map((run) => `${run.unit} ${kind === "error" ? run.percent : ""}`))]) {
      const same = runs.filter((run) => `${run.unit} ${kind === "error" ? run.percent : ""}` === units);
      chart(place, {
        title, unit: unitOf(kind, same[0]) + (kind === "error" || kind === "loss" ? ", of the agents' average" : ", largest agent"), axis: same[0].unit,
        format: formatOf(kind, same[0]), read: readOf(kind, same[0]), step: kind === "spent", zero: kind === "spent" || kind === "gap",
        lines: same.map((run) => { const k = DATA.runs.indexOf(run); return { name: run.name, xs: run.series.rounds, ys: run.series.of[kind].net, colour: COLOURS[k % COLOURS.length], dash: DASHES[k % DASHES.length] }; }),
      });
    }
  }
}

const whole = document.getElementById("versus");
if (whole) versus(whole);
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
