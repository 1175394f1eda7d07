// What the figures of a job were, drawn over time.

import uPlot from "./vendor/uPlot.esm.js";

import { element } from "./elements.js";
import { get } from "./rest.js";
import { count, duration, size } from "./text.js";

const LINES = [
  { title: "Rows from sources, per second", figure: "source_rows_per_s", show: count },
  { title: "Watermark lag", figure: "watermark_lag_ms", show: duration },
  { title: "Latency from source to sink", figure: "latency_ms", show: duration },
  { title: "Duration of checkpoints", figure: "checkpoint_duration_ms", show: duration },
  { title: "State in the newest checkpoint", figure: "checkpoint_bytes", show: size },
  { title: "Memory of the workers", figure: "memory_bytes", show: size },
  { title: "Processor time of the workers, ms per second", figure: "cpu_ms", show: count },
  { title: "Records that sources are behind", figure: "source_lag_rows", show: count },
];
const EVERY_MS = 10_000;
const COLOURS = ["--line-1", "--line-2", "--line-3", "--line-4", "--line-5", "--line-6"];
const MOST_SERIES = 6;

// Fills `place` now and every ten seconds, until `signal` aborts. `names` are those of operators by id.
export async function timelines(place, key, names, signal) {
  const query = LINES.map((line) => `figure=${line.figure}`).join("&");
  const switched = element("select", {
    "aria-label": "How far back",
    onchange: () => show(),
  },
  element("option", { value: "fine" }, "the last hour"),
  element("option", { value: "coarse" }, "the last week"));
  const charts = element("div", { class: "charts" });
  place.replaceChildren(element("div", { class: "row" }, element("h2", {}, "Over time"), switched), charts);
  let view = null;
  const show = () => {
    if (view) charts.replaceChildren(...drawnLines(view[switched.value], names, charts.clientWidth));
    if (!charts.children.length) {
      charts.replaceChildren(element("p", {}, "Nothing yet: figures are kept every ten seconds."));
    }
  };
  const looking = async () => {
    try {
      view = await get(`/jobs/${key}/history?${query}`, signal);
      show();
    } catch {
      // The job's own state says what is wrong.
    }
    if (!signal.aborted) setTimeout(looking, EVERY_MS);
  };
  addEventListener("resize", show, { signal });
  await looking();
}

function drawnLines(part, names, width) {
  const wide = Math.max(260, width > 900 ? (width - 24) / 2 : width);
  return LINES.flatMap((line) => {
    const series = part.series
      .map((name, n) => ({ n, labels: name.split("\t") }))
      .filter(({ labels, n }) => labels[0] === line.figure && part.values.some((row) => row[n] !== null))
      .slice(0, MOST_SERIES);
    if (!series.length || part.at_ms.length < 2) return [];
    return [chart(line, part, series, names, wide)];
  });
}

function chart(line, part, series, names, width) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--rule"), width: 1 } };
  const label = ({ labels }) =>
    labels.slice(1).map((part) => names.get(part) ?? part).join(" ") || "all";
  const place = element("figure", { class: "chart" }, element("figcaption", {}, line.title));
  const options = {
    width,
    height: 180,
    series: [
      { label: "time" },
      ...series.map((one, n) => ({
        label: label(one),
        stroke: colour(COLOURS[n % COLOURS.length]),
        width: 1.5,
        value: (_, value) => line.show(value),
      })),
    ],
    axes: [axis, { ...axis, size: 76, values: (_, ticks) => ticks.map((tick) => line.show(tick)) }],
    scales: { y: { range: (_, least, most) => [Math.min(0, least), most > 0 ? most * 1.08 : 1] } },
    legend: { show: series.length > 1 },
    cursor: { sync: { key: "rheos" } },
  };
  const data = [
    part.at_ms.map((ms) => ms / 1000),
    ...series.map(({ n }) => part.values.map((row) => row[n])),
  ];
  new uPlot(options, data, place);
  return place;
}
