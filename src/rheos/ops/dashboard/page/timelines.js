// The metrics of a job over time: which ones, how far back, and the zoom that all charts share.

import { startUps } from "./axes.js";
import { Chart, MAX_SERIES } from "./chart.js";
import { element } from "./elements.js";
import { show } from "./inplace.js";

export const LOAD = [
  { title: "Rows from sources, per second", metric: "source_rows_per_s", unit: "rows" },
  { title: "Records that sources are behind", metric: "source_lag_rows", unit: "rows" },
  { title: "Watermark lag", metric: "watermark_lag_ms", unit: "ms" },
  { title: "Latency from source to sink", metric: "latency_ms", unit: "ms" },
  { title: "Time since a sink last published", metric: "since_published_ms", unit: "ms" },
  { title: "Processor time of the workers, per second", metric: "cpu_ms", unit: "ms" },
  { title: "Memory of the workers", metric: "memory_bytes", unit: "bytes" },
];
export const CHECKPOINTS = [
  { title: "Duration of checkpoints", metric: "checkpoint_duration_ms", unit: "ms" },
  { title: "State in the newest checkpoint", metric: "checkpoint_bytes", unit: "bytes" },
];
const RANGES = [
  { label: "the last 10 minutes", grain: "fine", seconds: 600 },
  { label: "the last hour", grain: "fine", seconds: 3600 },
  { label: "the last day", grain: "coarse", seconds: 86_400 },
  { label: "the last week", grain: "coarse", seconds: 7 * 86_400 },
];
const EVERY_MS = 10_000;
const BESIDE_EACH_OTHER = 900;
const GAP = 24;

// Fills `place` now and every ten seconds, until `signal` aborts, with `lines` of the job of `page`. Returns
// a function to call when the page has changed: legends need the names of the plan.
export function timelines(place, page, lines, signal) {
  const query = [...lines.map((line) => line.metric), "uptime_s"].map((name) => `metric=${name}`).join("&");
  const charts = new Map(lines.map((line) => [line, new Chart(line.title, line.unit, zoom)]));
  const seen = { history: null, zoom: null, problem: null, plan: null };
  const range = element("select", {
    "aria-label": "How far back",
    onchange: () => zoom(),
  }, RANGES.map(({ label }, n) => element("option", { value: n, selected: n === 1 }, label)));
  const whole = element("button", { type: "button", onclick: () => zoom() }, "Show all");
  const how = element("span", { class: "quiet" }, "UTC. Drag over a chart to zoom; double-click to see all again.");
  const drawnCharts = element("div", { class: "charts" });
  place.replaceChildren(element("div", { class: "row" },
    element("h2", {}, "Over time"), range, whole, how), drawnCharts);

  function zoom(from = null, to = null) {
    seen.zoom = from === null ? null : [from, to];
    draw();
  }
  function draw() {
    whole.disabled = seen.zoom === null;
    const part = seen.history === null ? null : within(seen.history, RANGES[range.value]);
    const wide = drawnCharts.clientWidth;
    const width = Math.max(240, wide > BESIDE_EACH_OTHER ? Math.floor((wide - GAP) / 2) : wide);
    const series = new Map(lines.map((line) => [line, part === null ? [] : seriesOf(line, part)]));
    const there = lines.filter((line) => series.get(line).length && part.at_ms.length > 1);
    show(drawnCharts, there.length ? there.map((line) => charts.get(line).place)
      : element("p", {}, seen.problem ?? "Nothing yet: a moment is recorded every ten seconds."));
    for (const line of there) {
      const of = series.get(line).slice(0, MAX_SERIES);
      charts.get(line).show(
        part.at_ms.map((ms) => ms / 1000), of.map(({ values }) => values),
        of.map(({ labels }) => legend(line.metric, labels, page.names())),
        startingUp(part), seen.zoom, width);
    }
  }
  addEventListener("resize", draw, { signal });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw, { signal });
  page.poll(`history?${query}`, EVERY_MS, signal, (history, problem) => {
    if (problem === null) seen.history = history;
    seen.problem = problem?.message ?? null;
    draw();
  });
  return () => {
    if (seen.plan === page.plan) return;
    seen.plan = page.plan;
    if (seen.history !== null) draw();
  };
}

// The moments of the chosen range, counted back from the newest.
function within(history, { grain, seconds }) {
  const part = history[grain];
  const newest = part.at_ms.at(-1) ?? 0;
  const first = part.at_ms.findIndex((ms) => ms >= newest - seconds * 1000);
  return { ...part, at_ms: part.at_ms.slice(first), values: part.values.slice(first) };
}

function seriesOf(line, part) {
  return part.series
    .map((name, n) => ({ labels: name.split("\t"), values: part.values.map((row) => row[n]) }))
    .filter(({ labels, values }) => labels[0] === line.metric && values.some((value) => value !== null))
    .map(({ labels, values }) => ({ labels: labels.slice(1), values }));
}

function startingUp(part) {
  const uptime = part.series.indexOf("uptime_s");
  return startUps(part.values.map((row) => (uptime < 0 ? null : row[uptime])));
}

// The words for one line of a chart: "orders to kafka, p99". Empty where it is the only one of its kind.
export function legend(metric, labels, names) {
  const quantile = labels.find((label, n) => n === labels.length - 1 && /^p\d+$/.test(label));
  const places = labels.slice(0, quantile === undefined ? undefined : -1).map((label) => names.get(label) ?? label);
  const where = places.join(metric === "latency_ms" ? " to " : ", ");
  return [where, quantile].filter((part) => part).join(", ");
}
