// Draws each chart of the page from the JSON beside it: hover shows values, buttons hide lines, a drag zooms in.
"use strict";
const SVG = "http://www.w3.org/2000/svg", DASHES = {evaluated: "6 4"};
const SIGNS = {training: "\u2014", evaluated: "\u2504", "final evaluation": "\u25c6"};
const LEFT = 58, RIGHT = 12, TOP = 12, BOTTOM = 40;

function make(parent, name, attributes, text) {
  const element = parent.appendChild(document.createElementNS(SVG, name));
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  return element;
}

function short(x) {
  for (const [unit, name] of [[1e9, "B"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(x) >= unit) return +(x / unit).toPrecision(4) + name;
  return String(+x.toPrecision(4));
}

function number(x) {
  return Number.isInteger(x) ? x.toLocaleString("en") : String(+x.toPrecision(4));
}

// Round numbers between two others, about `count` of them.
function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find(one => one * power >= rough);
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high + step / 1e6; at++) found.push(at * step);
  return found;
}

// Neighbouring points that are there, as one path; a gap breaks it.
function path(xs, ys, X, Y) {
  let text = "", down = false;
  xs.forEach((x, i) => {
    if (ys[i] !== null) text += `${down ? "L" : "M"}${X(x).toFixed(1)},${Y(ys[i]).toFixed(1)}`;
    down = ys[i] !== null;
  });
  return text;
}

function chart(box) {
  const data = JSON.parse(box.querySelector("script").textContent);
  const keys = box.appendChild(document.createElement("div")), hidden = new Set();
  const svg = box.appendChild(document.createElementNS(SVG, "svg"));
  const tip = box.appendChild(document.createElement("div"));
  keys.className = "keys"; tip.className = "tip"; tip.hidden = true;
  svg.setAttribute("role", "img"); svg.setAttribute("aria-label", `${data.y} by ${data.x}`);
  let showSeeds = data.arms.length === 1, zoom = null, X, Y, extent, drag = null, clip;

  function button(label, pressed, act) {
    const one = keys.appendChild(document.createElement("button"));
    one.type = "button"; one.append(label);
    if (pressed !== null) one.setAttribute("aria-pressed", pressed);
    one.onclick = () => { act(one); draw(); };
    return one;
  }
  function toggle(label, key) {
    return button(label, true, one => {
      hidden.has(key) ? hidden.delete(key) : hidden.add(key);
      one.setAttribute("aria-pressed", !hidden.has(key));
    });
  }
  data.arms.forEach((arm, i) => {
    const swatch = document.createElement("span");
    swatch.className = "swatch"; swatch.style.background = color(i);
    toggle(arm, "arm " + i).prepend(swatch);
  });
  const kinds = [...new Set(data.series.map(one => one.kind))];
  if (kinds.length > 1) kinds.forEach(kind => toggle(`${SIGNS[kind]} ${kind}`, "kind " + kind));
  if (data.series.some(one => one.seeds.length > 1))
    button("each seed", showSeeds, one => { showSeeds = !showSeeds; one.setAttribute("aria-pressed", showSeeds); });
  const reset = button("whole width", null, () => { zoom = null; });

  function color(arm) { return `var(--c${arm % 8})`; }
  function shown() { return data.series.filter(one => !hidden.has("arm " + one.arm) && !hidden.has("kind " + one.kind)); }
  function inside(x) { return x >= extent[0] && x <= extent[1]; }

  function draw() {
    const width = box.clientWidth, height = Math.max(260, Math.min(420, width * 0.55)), series = shown();
    svg.replaceChildren(); svg.setAttribute("viewBox", `0 0 ${width} ${height}`); svg.setAttribute("height", height);
    tip.hidden = true; reset.hidden = zoom === null;
    extent = zoom || [data.from, Math.max(data.from + 1e-9, ...data.series.flatMap(one => one.x))];
    let low = Infinity, high = -Infinity;
    const all = (one, ...lines) => lines.flatMap(values => values.filter((y, i) => y !== null && inside(one.x[i])));
    for (const one of series)
      for (const y of all(one, one.value, ...(showSeeds ? one.seeds.map(seed => seed.y) : [])))
        low = Math.min(low, y), high = Math.max(high, y);
    if (low > high) [low, high] = [0, 1];
    // Few seeds have intervals far wider than all that was measured: they are shown up to a quarter of that beyond it.
    const ends = series.flatMap(one => all(one, one.low, one.high)), beyond = high > low ? (high - low) / 4 : Infinity;
    low = Math.min(low, Math.max(low - beyond, Math.min(low, ...ends)));
    high = Math.max(high, Math.min(high + beyond, Math.max(high, ...ends)));
    const room = (high - low || Math.abs(high) || 1) * 0.06; low -= room; high += room;
    X = x => LEFT + (x - extent[0]) / (extent[1] - extent[0]) * (width - LEFT - RIGHT);
    Y = y => height - BOTTOM - (y - low) / (high - low) * (height - TOP - BOTTOM);
    for (const y of ticks(low, high, 5)) {
      make(svg, "line", {class: "grid", x1: LEFT, x2: width - RIGHT, y1: Y(y), y2: Y(y)});
      make(svg, "text", {x: LEFT - 8, y: Y(y) + 4, "text-anchor": "end"}, short(y));
    }
    for (const x of ticks(...extent, width < 500 ? 3 : 6))
      make(svg, "text", {x: X(x), y: height - BOTTOM + 18, "text-anchor": X(x) > width - 30 ? "end" : "middle"}, short(x));
    make(svg, "text", {x: width - RIGHT, y: height - 4, "text-anchor": "end"}, data.x);
    make(svg, "text", {x: 14, y: (height - BOTTOM) / 2, transform: `rotate(-90 14 ${(height - BOTTOM) / 2})`,
      "text-anchor": "middle"}, data.y);
    clip = `clip-${box.id}`;
    make(make(svg, "clipPath", {id: clip}), "rect",
      {x: LEFT - 6, y: 0, width: width - LEFT - RIGHT + 12, height: height - BOTTOM + 6});
    const plot = make(svg, "g", {"clip-path": `url(#${clip})`});
    for (const one of series) one.x.length === 1 ? point(plot, one) : line(plot, one);
  }

  function line(plot, one) {
    const there = one.x.map((_, i) => i).filter(i => one.low[i] !== null && one.high[i] !== null);
    if (there.length) {
      const edge = (ys, order) => order.map(i => `${X(one.x[i]).toFixed(1)},${Y(ys[i]).toFixed(1)}`).join(" ");
      make(plot, "polygon", {class: "band", style: `fill:${color(one.arm)}`,
        points: edge(one.high, there) + " " + edge(one.low, there.slice().reverse())});
    }
    const look = `stroke:${color(one.arm)}`;
    if (showSeeds) for (const seed of one.seeds)
      make(make(plot, "path", {class: "seed", style: look, d: path(one.x, seed.y, X, Y)}), "title", {}, seed.name);
    make(plot, "path", {class: "line", style: look, "stroke-dasharray": DASHES[one.kind] || (one.arm > 7 ? "2 3" : ""),
      d: path(one.x, one.value, X, Y)});
  }

  // A score at one step: a diamond with its interval.
  function point(plot, one) {
    const x = X(one.x[0]), y = Y(one.value[0]), look = `stroke:${color(one.arm)};fill:${color(one.arm)}`;
    if (one.low[0] !== null)
      make(plot, "line", {style: look + ";stroke-width:2", x1: x, x2: x, y1: Y(one.low[0]), y2: Y(one.high[0])});
    if (showSeeds) for (const seed of one.seeds)
      make(make(plot, "circle", {class: "seed", style: look, cx: x, cy: Y(seed.y[0]), r: 3}), "title", {}, seed.name);
    make(plot, "path", {class: "point", style: look, d: `M${x - 6},${y}L${x},${y - 6}L${x + 6},${y}L${x},${y + 6}Z`});
  }

  function value(at) {
    const place = (at - LEFT) / (svg.clientWidth - LEFT - RIGHT);
    return extent[0] + Math.min(1, Math.max(0, place)) * (extent[1] - extent[0]);
  }
  function hover(at) {
    const x = value(at), lines = shown().map(one => {
      const near = one.x.reduce((best, other, i) => Math.abs(other - x) < Math.abs(one.x[best] - x) ? i : best, 0);
      return {one, i: near};
    }).filter(({one, i}) => one.value[i] !== null && inside(one.x[i]) && (one.x.length > 1 || Math.abs(X(one.x[i]) - at) < 20));
    svg.querySelectorAll(".cross").forEach(old => old.remove());
    if (!lines.length) { tip.hidden = true; return; }
    const nearest = lines.reduce((a, b) => Math.abs(b.one.x[b.i] - x) < Math.abs(a.one.x[a.i] - x) ? b : a);
    const step = nearest.one.x[nearest.i];
    make(svg, "line", {class: "cross", x1: X(step), x2: X(step), y1: TOP, y2: svg.clientHeight - BOTTOM});
    tip.replaceChildren(`${data.x}: ${number(step)}`);
    for (const {one, i} of lines) {
      const row = tip.appendChild(document.createElement("div")), few = x => String(+x.toPrecision(4));
      const where = one.x[i] === step ? "" : ` at ${number(one.x[i])}`;
      const range = one.low[i] === null ? "" : ` [${few(one.low[i])}, ${few(one.high[i])}]`;
      row.style.color = color(one.arm);
      row.textContent = `${one.name}${kinds.length > 1 ? ", " + one.kind : ""}: ${few(one.value[i])}${range}${where}`;
    }
    tip.hidden = false;
    tip.style.top = `${svg.getBoundingClientRect().bottom - box.getBoundingClientRect().top - BOTTOM - 8 - tip.offsetHeight}px`;
    tip.style.left = X(step) < svg.clientWidth / 2 ? `${X(step) + 12}px` : "auto";
    tip.style.right = X(step) < svg.clientWidth / 2 ? "auto" : `${svg.clientWidth - X(step) + 12}px`;
  }
  const at = event => event.clientX - svg.getBoundingClientRect().left;
  svg.onpointerdown = event => { drag = at(event); svg.setPointerCapture(event.pointerId); };
  svg.onpointermove = event => {
    hover(at(event));
    svg.querySelectorAll(".brush").forEach(old => old.remove());
    if (drag !== null && Math.abs(at(event) - drag) > 8)
      make(svg, "rect", {class: "brush", x: Math.min(drag, at(event)), width: Math.abs(at(event) - drag), y: TOP,
        height: svg.clientHeight - TOP - BOTTOM});
  };
  svg.onpointerup = event => {
    const ends = drag === null ? [0, 0] : [value(drag), value(at(event))].sort((a, b) => a - b);
    const far = drag !== null && Math.abs(at(event) - drag) > 8 && ends[1] > ends[0];
    drag = null;
    if (far) { zoom = ends; draw(); } else hover(at(event));
  };
  svg.onpointercancel = () => { drag = null; draw(); };
  svg.onpointerleave = () => { if (drag === null) { tip.hidden = true; svg.querySelectorAll(".cross").forEach(old => old.remove()); } };
  svg.ondblclick = () => { zoom = null; draw(); };
  new ResizeObserver(draw).observe(box);
}

const theme = document.getElementById("theme"), root = document.documentElement;
theme.hidden = false;
theme.onclick = () => {
  const dark = getComputedStyle(root).colorScheme === "dark" ||
    (getComputedStyle(root).colorScheme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  root.style.colorScheme = dark ? "light" : "dark";
};
document.querySelectorAll(".chart").forEach(chart);
