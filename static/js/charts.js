// uPlot charts: <div data-chart="line|cdf|scatter" data-src="url or #json-script-id">. Data shapes: docs/internals/pages.md.
// The page itself gives the same numbers as a table in a <details>.
const HEIGHT = 260;
// Series differ by dash and point as well as by colour.
const DASHES = [[], [6, 4], [2, 3], [10, 3, 2, 3], [1, 2], [12, 4]];
const drawn = new Map();

function colour(token) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${token})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

function font() {
  return `12px ${getComputedStyle(document.documentElement).fontFamily}`;
}

const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
// The legend under a chart nobody points at has no values; a gap under the pointer has a dash.
const written = (unit) => (_, value, series, index) =>
  (index == null ? "" : value == null ? "–" : `${plain.format(value)}${unit ? ` ${unit}` : ""}`);
const titled = (label, unit) => (unit ? `${label ?? ""} (${unit})`.trim() : label);

function axis(label, extra = {}) {
  const text = colour("text-muted");
  return {
    label, labelSize: label ? 20 : 0, labelFont: font(), font: font(), stroke: text, size: extra.side === undefined ? 32 : 56,
    grid: { stroke: colour("rule"), width: 1 }, ticks: { stroke: colour("rule"), width: 1, size: 4 },
    values: (_, ticks) => ticks.map((tick) => (tick == null ? "" : plain.format(tick))), ...extra,
  };
}

function series(index, label, unit, extra = {}) {
  return { label, stroke: colour(`series-${(index % 6) + 1}`), width: 1.5, dash: DASHES[index % 6], points: { show: false },
    value: written(unit), spanGaps: false, ...extra };
}


// {x: [..], x_label, x_unit, x_kind: "time"|"number", series: [{label, unit, values: [..], axis: "left"|"right"}]}
function line(data) {
  const right = data.series.filter((one) => one.axis === "right");
  const left = data.series.filter((one) => one.axis !== "right");
  const isTime = data.x_kind === "time";
  return {
    data: [data.x, ...data.series.map((one) => one.values)],
    scales: { x: { time: isTime }, y: { range: fromZero }, r: { range: fromZero } },
    axes: [
      axis(titled(data.x_label, data.x_unit), isTime ? { values: undefined } : {}),
      axis(sharedTitle(left), { scale: "y", side: 3 }),
      ...(right.length ? [axis(sharedTitle(right), { scale: "r", side: 1, grid: { show: false } })] : []),
    ],
    series: [{ label: data.x_label, value: isTime ? undefined : written(data.x_unit) },
      ...data.series.map((one, i) => series(i, one.label, one.unit, { scale: one.axis === "right" ? "r" : "y" }))],
  };
}

// {unit, label, series: [{label, values: [raw measurements]}]}: the share of requests at or below each value.
function cdf(data) {
  const sorted = data.series.map((one) => Float64Array.from(one.values.filter((value) => value != null)).sort());
  const xs = [...new Set(sorted.flatMap((values) => [...values]))].sort((a, b) => a - b);
  const shares = sorted.map((values) => {
    let at = 0;
    return xs.map((x) => {
      while (at < values.length && values[at] <= x) at += 1;
      // Nothing before the first value and after the last: a line at 0 or 100 % would claim measurements.
      if (at === 0 || (at === values.length && x > values[values.length - 1])) return null;
      return (100 * at) / values.length;
    });
  });
  return {
    data: [xs, ...shares],
    scales: { x: { time: false }, y: { range: [0, 100] } },
    axes: [axis(titled(data.label, data.unit)), axis(data.share_label ?? "%", { side: 3 })],
    series: [{ label: data.label ?? "", value: written(data.unit) },
      ...data.series.map((one, i) => series(i, one.label, "%", { paths: uPlot.paths.stepped({ align: 1 }) }))],
  };
}

// {x_label, x_unit, y_label, y_unit, series: [{label, points: [[x, y], ..]}]}
function scatter(data) {
  const xs = [...new Set(data.series.flatMap((one) => one.points.map(([x]) => x)))].sort((a, b) => a - b);
  const columns = data.series.map((one) => {
    const at = new Map(one.points);
    return xs.map((x) => at.get(x) ?? null);
  });
  return {
    data: [xs, ...columns],
    scales: { x: { time: false, range: fromZero }, y: { range: fromZero } },
    axes: [axis(titled(data.x_label, data.x_unit)), axis(titled(data.y_label, data.y_unit), { side: 3 })],
    series: [{ label: data.x_label, value: written(data.x_unit) },
      ...data.series.map((one, i) => series(i, one.label, data.y_unit, {
        spanGaps: true, width: one.joined === false ? 0 : 1.5, points: { show: true, size: 8, fill: colour(`series-${(i % 6) + 1}`) } }))],
  };
}

function fromZero(_, low, high) {
  if (low == null) return [0, 1];
  return [Math.min(0, low), high > 0 ? high * 1.06 : 1];
}

function sharedTitle(list) {
  const units = [...new Set(list.map((one) => one.unit ?? ""))];
  return list.length === 1 ? titled(list[0].label, list[0].unit) : units.join(", ");
}

const KINDS = { line, cdf, scatter };

async function load(source) {
  if (source.startsWith("#")) return JSON.parse(document.getElementById(source.slice(1)).textContent);
  const answer = await fetch(source, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`${source}: ${answer.status}`);
  return answer.json();
}

function draw(element, data) {
  drawn.get(element)?.plot.destroy();
  const options = KINDS[element.dataset.chart](data);
  const plot = new uPlot(
    { width: Math.max(200, element.clientWidth), height: HEIGHT, cursor: { drag: { x: true, y: false } }, legend: { live: true },
      ...options, data: undefined },
    options.data, element);
  drawn.set(element, { plot, data });
}

const isMeasured = (data) => data.series.some((one) => (one.values ?? one.points.map(([, y]) => y)).some((value) => value != null));

// Words instead of a drawing; without the role of one, so that they are read out.
function say(element, text) {
  const note = document.createElement("p");
  note.className = "chart-note";
  note.textContent = text;
  element.replaceChildren(note);
  element.classList.add("wordy");
  element.removeAttribute("role");
}

async function show(element) {
  try {
    const data = await load(element.dataset.src);
    if (!isMeasured(data)) return say(element, element.dataset.empty);
    draw(element, data);
    resizes.observe(element);
  } catch (error) {
    say(element, element.dataset.failed);
    element.dataset.error = error.message;
  }
}

const resizes = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const one = drawn.get(target);
    if (one && contentRect.width > 0 && one.plot.width !== Math.floor(contentRect.width)) {
      one.plot.setSize({ width: Math.floor(contentRect.width), height: HEIGHT });
    }
  }
});

function repaint() {
  for (const [element, { data }] of drawn) draw(element, data);
}

function start() {
  for (const [element, { plot }] of drawn) {
    if (element.isConnected) continue;
    plot.destroy();
    drawn.delete(element);
  }
  for (const element of document.querySelectorAll("[data-chart]:not([data-drawn])")) {
    element.dataset.drawn = "";
    show(element);
  }
}

start();
document.addEventListener("htmx:after:swap", start);
document.addEventListener("theme:change", repaint);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
