// One chart of a metric over time. A drag over it zooms; it keeps its zoom while new data arrives.

import { axis, highest, tickLabel, timeLabels, TIME_STEPS_S } from "./axes.js";
import { element } from "./elements.js";
import { inUnit, moment, printable } from "./text.js";

const { uPlot } = window; // vendor/uPlot.iife.min.js

const COLOURS = ["--line-1", "--line-2", "--line-3", "--line-4", "--line-5", "--line-6"];
export const MAX_SERIES = COLOURS.length;
const HEIGHT = 190;
const NARROW = 480;

export class Chart {
  // `zoomed(from, to)` is called with seconds since the epoch when the user has selected a part, and with
  // nothing when the user has asked for all of it again.
  constructor(title, unit, zoomed) {
    this.unit = unit;
    this.zoomed = zoomed;
    this.note = element("p", { class: "note" });
    this.canvas = element("div", {});
    this.place = element("figure", { class: "chart", "data-opaque": true, "data-key": title },
      element("figcaption", {}, title), this.canvas, this.note);
    this.plot = null;
    this.drawnAs = null;
    this.startingUp = [];
  }

  // Shows `columns` (a list of values each) with their `labels` at these seconds since the epoch; `range`
  // is the part that the user has selected, or null.
  show(seconds, columns, labels, startingUp, range, width) {
    this.startingUp = startingUp;
    // The library asks for the range of values before it has set the range of time.
    [this.from, this.to] = range ?? [seconds[0], seconds.at(-1)];
    const data = [seconds, ...columns];
    const drawnAs = JSON.stringify([labels, matchMedia("(prefers-color-scheme: dark)").matches]);
    if (this.plot === null || this.drawnAs !== drawnAs) {
      this.plot?.destroy();
      this.plot = new uPlot(this.options(labels, width), data, this.canvas);
      this.drawnAs = drawnAs;
    } else if (this.plot.width !== width) {
      this.plot.setSize({ width, height: HEIGHT });
    }
    this.plot.setData(data, false);
    this.plot.setLegend();
    this.place.style.width = `${width}px`;
    this.plot.setScale("x", { min: this.from, max: this.to });
  }

  options(labels, width) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const line = {
      stroke: colour("--quiet"), font: `12px ${style.getPropertyValue("--font").trim() || "sans-serif"}`,
      grid: { stroke: colour("--rule"), width: 1 }, ticks: { stroke: colour("--rule"), width: 1 },
    };
    return {
      width,
      height: HEIGHT,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      series: [
        { label: "time", value: newest((second) => moment(second * 1000)) },
        ...labels.map((label, n) => ({
          label: printable(label),
          stroke: colour(COLOURS[n % COLOURS.length]),
          width: 1.5,
          points: { show: false },
          value: newest((value) => inUnit(this.unit, value)),
        })),
      ],
      axes: [
        { ...line, size: 48, space: width < NARROW ? 70 : 80, incrs: TIME_STEPS_S, values: (_, at, __, ___, step) => timeLabels(at, step) },
        {
          ...line, size: 76,
          splits: (_, __, least, most) => axis(this.unit, least, most).ticks.filter((tick) => tick <= most),
          values: (_, ticks) => ticks.map((tick) => tickLabel(this.unit, tick)),
        },
      ],
      scales: { y: { range: (plot) => this.range(plot) } },
      legend: { show: labels.length > 1 || labels[0] !== "" },
      cursor: {
        sync: { key: "rheos", filters: { pub: (kind) => kind !== "mousedown" && kind !== "mouseup" } },
        drag: { x: true, y: false, setScale: false },
        bind: { dblclick: () => () => this.zoomed() },
      },
      hooks: { setSelect: [(plot) => this.selected(plot)] },
    };
  }

  // Returns the range of values for the range of time that is shown.
  range(plot) {
    const [seconds, ...columns] = plot.data;
    const shown = seconds.map((_, n) => n).filter((n) => seconds[n] >= this.from && seconds[n] <= this.to);
    if (!shown.length) return [0, 1];
    const visible = columns.filter((_, n) => plot.series[n + 1].show);
    const { most, cut, peak } = highest(visible, this.startingUp, shown[0], shown.at(-1));
    const values = shown.flatMap((n) => visible.map((column) => column[n])).filter((value) => value !== null);
    const { from, to } = axis(this.unit, Math.min(0, ...values), most ?? 0);
    this.note.textContent = cut === null ? ""
      : `The peak of the start, ${inUnit(this.unit, peak)} at ${moment(seconds[cut] * 1000)}, is above this scale. Select it to see it.`;
    return [from, to];
  }

  selected(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.zoomed(from, to);
  }
}

// What the legend shows: the value under the pointer, else the newest one.
function newest(shown) {
  return (plot, _, series, at) => {
    const value = plot.data[series][at ?? plot.data[0].length - 1];
    return value === null || value === undefined ? "" : shown(value);
  };
}
