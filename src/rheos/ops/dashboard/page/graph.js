// The graph of a job, drawn from its plan: a box for each chain, a line for each operator, and edges as
// wide as the flow on them.

import { drawn, element } from "./elements.js";
import { HEAD, layout, LINE } from "./layout.js";
import { count, counted, duration, share, size } from "./text.js";

function widthOf(rowsPerSecond) {
  return rowsPerSecond ? Math.min(14, 1.5 + 1.7 * Math.log10(1 + rowsPerSecond)) : 1.5;
}

function cut(text, longest) {
  const letters = [...text];
  return letters.length > longest ? `${letters.slice(0, longest - 1).join("")}…` : text;
}

// Draws the graph. `choose(id)` is called for an operator; `available` is the width of the place.
export function graph(plan, metrics, choose, available) {
  const { boxes, edges, width, height } = layout(plan, available);
  return drawn("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "The graph of the job",
  },
  edges.map((placed) => edgeDrawn(placed, metrics)),
  [...boxes.values()].map((box) => chainDrawn(box, metrics, choose)));
}

function edgeDrawn({ edge, path, label }, metrics) {
  const rate = metrics.perSecond("sent_rows", { edge: edge.id });
  const bytes = metrics.perSecond("sent_bytes", { edge: edge.id });
  const how = edge.keys.length ? `${edge.exchange} of ${edge.keys.join(", ")}` : edge.exchange;
  return drawn("g", { class: "edge", "data-key": `edge ${edge.id}` },
    drawn("title", {}, `${how}${bytes === null ? "" : `, ${size(bytes)}/s`}`),
    drawn("path", { d: path, "stroke-width": widthOf(rate) }),
    drawn("text", { x: label.x, y: label.y, "text-anchor": label.anchor }, rate === null ? "" : `${count(rate)}/s`));
}

function chainDrawn(box, metrics, choose) {
  const shares = metrics.shares(box.chain.id);
  const said = shares
    ? `busy ${share(shares.busy)}${shares.held > 0.005 ? `, blocked ${share(shares.held)}` : ""}`
    : "";
  return drawn("g", { class: "chain", "data-key": `chain ${box.chain.id}` },
    drawn("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: 4, class: "box" }),
    timeBar(box, shares),
    drawn("text", { x: box.x + 10, y: box.y + 19, class: "said" }, counted(box.chain.subtasks, "subtask")),
    drawn("text", { x: box.x + box.width - 10, y: box.y + 19, class: "said end" }, said),
    box.chain.operators.map((operator, line) => operatorLine(box, line, operator, metrics, choose)));
}

function timeBar(box, shares) {
  const parts = shares ? [["busy", shares.busy], ["held", shares.held], ["idle", shares.idle]] : [];
  let x = box.x;
  return parts.map(([kind, part]) => {
    const width = Math.max(0, Math.min(part, 1, (box.x + box.width - x) / box.width)) * box.width;
    const bar = drawn("rect", { x, y: box.y, width, height: 5, class: `bar ${kind}` });
    x += width;
    return bar;
  });
}

function operatorLine(box, line, operator, metrics, choose) {
  const labels = { operator: operator.id };
  const rates = [metrics.perSecond("rows_in", labels), metrics.perSecond("rows_out", labels)];
  const lag = metrics.most("watermark_lag_ms", labels);
  const state = metrics.total("state_bytes", labels);
  const flow = rates.map((rate) => (rate === null ? "–" : count(rate)));
  const facts = [
    `${flow[0]} → ${flow[1]} rows/s`,
    lag === null ? null : `lag ${duration(lag)}`,
    state ? size(state) : null,
  ].filter((fact) => fact !== null);
  const y = box.y + HEAD + line * LINE;
  const pick = () => choose(operator.id);
  return drawn("g", {
    class: "operator",
    tabindex: 0,
    role: "link",
    "aria-label": `${operator.name}: ${facts.join(", ")}`,
    "data-key": `operator ${operator.id}`,
    "data-operator": operator.id,
    onclick: pick,
    onkeydown: (event) => {
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        pick();
      }
    },
  },
  drawn("title", {}, `${operator.name} (${operator.id}), ${operator.site}`),
  drawn("rect", { x: box.x + 3, y, width: box.width - 6, height: LINE - 3, rx: 3, class: "line" }),
  drawn("text", { x: box.x + 10, y: y + 18, class: "name" }, cut(operator.name, Math.floor(box.width / 9))),
  drawn("text", { x: box.x + 10, y: y + 35, class: "facts" }, cut(facts.join(" · "), Math.floor(box.width / 6))));
}

export function graphLegend() {
  return element("p", { class: "legend" },
    [["busy", "busy"], ["held", "blocked: waits for an operator downstream"], ["idle", "idle"]].map(([kind, said]) =>
      element("span", {}, element("i", { class: kind }), said)));
}
