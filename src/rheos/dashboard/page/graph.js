// The graph of a job, drawn from its plan: a box for each chain, a line for each operator, and edges as
// wide as what flows on them.

import { drawn } from "./elements.js";
import { count, duration, share, size } from "./text.js";

const BOX_WIDTH = 236;
const BETWEEN = 108;
const LINE = 46;
const HEAD = 26;
const GAP = 26;

// How far from the sources each chain is: the longest way. Edges that lead back do not count.
function layers(plan) {
  const depth = new Map(plan.chains.map((chain) => [chain.id, 0]));
  for (const chain of plan.chains) {
    for (const edge of plan.edges) {
      if (edge.target === chain.id && !edge.feedback) {
        depth.set(chain.id, Math.max(depth.get(chain.id), depth.get(edge.source) + 1));
      }
    }
  }
  return depth;
}

function placed(plan) {
  const depth = layers(plan);
  const columns = new Map();
  for (const chain of plan.chains) {
    const column = depth.get(chain.id);
    columns.set(column, [...(columns.get(column) ?? []), chain]);
  }
  const heightOf = (chain) => HEAD + chain.operators.length * LINE;
  const heights = [...columns.values()].map((chains) =>
    chains.reduce((all, chain) => all + heightOf(chain) + GAP, -GAP));
  const tallest = Math.max(...heights);
  const boxes = new Map();
  for (const [column, chains] of columns) {
    let y = 8 + (tallest - heights[[...columns.keys()].indexOf(column)]) / 2;
    for (const chain of chains) {
      boxes.set(chain.id, { chain, x: 8 + column * (BOX_WIDTH + BETWEEN), y, height: heightOf(chain) });
      y += heightOf(chain) + GAP;
    }
  }
  return {
    boxes,
    width: 16 + columns.size * (BOX_WIDTH + BETWEEN) - BETWEEN,
    height: 16 + tallest,
  };
}

function widthOf(rowsPerSecond) {
  return rowsPerSecond ? Math.min(14, 1.5 + 1.7 * Math.log10(1 + rowsPerSecond)) : 1.5;
}

function edgePath(from, to, feedback) {
  if (feedback) {
    const below = Math.max(from.y, to.y) + 90;
    return `M${from.x},${from.y} C${from.x + 60},${below} ${to.x - 60},${below} ${to.x},${to.y}`;
  }
  const half = (to.x - from.x) / 2;
  return `M${from.x},${from.y} C${from.x + half},${from.y} ${to.x - half},${to.y} ${to.x},${to.y}`;
}

function cut(text, longest) {
  return text.length > longest ? `${text.slice(0, longest - 1)}…` : text;
}

function timeBar(box, shares) {
  const parts = shares ? [["busy", shares.busy], ["held", shares.held], ["idle", shares.idle]] : [];
  let x = box.x;
  return parts.map(([kind, part]) => {
    const width = Math.max(0, Math.min(part, 1)) * BOX_WIDTH;
    const bar = drawn("rect", { x, y: box.y, width, height: 5, class: `bar ${kind}` });
    x += width;
    return bar;
  });
}

// Draws it anew each time: there are a few dozen boxes. `choose(id)` is called for an operator.
export function graph(plan, figures, chosen, choose) {
  const { boxes, width, height } = placed(plan);
  const anchor = (box, operator) => {
    const line = Math.max(0, box.chain.operators.findIndex((each) => each.id === operator));
    return box.y + HEAD + line * LINE + LINE / 2;
  };
  const edges = plan.edges.map((edge) => {
    const from = boxes.get(edge.source);
    const to = boxes.get(edge.target);
    const start = { x: from.x + BOX_WIDTH, y: anchor(from, edge.sender) };
    const end = { x: to.x, y: to.y + HEAD + LINE / 2 };
    const rate = figures.perSecond("sent_rows", { edge: edge.id });
    const bytes = figures.perSecond("sent_bytes", { edge: edge.id });
    const how = edge.keys.length ? `${edge.exchange} of ${edge.keys.join(", ")}` : edge.exchange;
    const middle = { x: (start.x + end.x) / 2, y: (start.y + end.y) / 2 };
    return drawn("g", { class: "edge" },
      drawn("title", {}, `${how}${bytes === null ? "" : `, ${size(bytes)}/s`}`),
      drawn("path", { d: edgePath(start, end, edge.feedback), "stroke-width": widthOf(rate) }),
      drawn("text", { x: middle.x, y: middle.y - 9 }, rate === null ? "" : `${count(rate)}/s`),
      drawn("text", { x: middle.x, y: middle.y + 17, class: "how" }, cut(how, 18)));
  });
  const chains = [...boxes.values()].map((box) => {
    const shares = figures.shares(box.chain.id);
    const said = shares
      ? `busy ${share(shares.busy)}${shares.held > 0.005 ? `, held up ${share(shares.held)}` : ""}`
      : "";
    return drawn("g", { class: "chain" },
      drawn("rect", { x: box.x, y: box.y, width: BOX_WIDTH, height: box.height, rx: 4, class: "box" }),
      timeBar(box, shares),
      drawn("text", { x: box.x + 10, y: box.y + 19, class: "said" },
        `${box.chain.subtasks} subtask${box.chain.subtasks === 1 ? "" : "s"}`),
      drawn("text", { x: box.x + BOX_WIDTH - 10, y: box.y + 19, class: "said end" }, said),
      box.chain.operators.map((operator, line) => operatorLine(box, line, operator, figures, chosen, choose)));
  });
  return drawn("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "The graph of the job",
  }, edges, chains);
}

function operatorLine(box, line, operator, figures, chosen, choose) {
  const labels = { operator: operator.id };
  const rates = [figures.perSecond("rows_in", labels), figures.perSecond("rows_out", labels)];
  const lag = figures.most("watermark_lag_ms", labels);
  const state = figures.total("state_bytes", labels);
  const flow = rates.map((rate) => (rate === null ? "–" : count(rate)));
  const facts = [
    `${flow[0]} → ${flow[1]} rows/s`,
    lag === null ? null : `lag ${duration(lag)}`,
    state ? size(state) : null,
  ].filter((fact) => fact !== null);
  const y = box.y + HEAD + line * LINE;
  const pick = () => choose(operator.id);
  return drawn("g", {
    class: `operator${operator.id === chosen ? " chosen" : ""}`,
    tabindex: 0,
    role: "button",
    "aria-pressed": operator.id === chosen ? "true" : "false",
    "aria-label": `${operator.name}: ${facts.join(", ")}`,
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
  drawn("rect", { x: box.x + 3, y, width: BOX_WIDTH - 6, height: LINE - 3, rx: 3, class: "line" }),
  drawn("text", { x: box.x + 10, y: y + 18, class: "name" }, cut(operator.name, 30)),
  drawn("text", { x: box.x + 10, y: y + 35, class: "facts" }, cut(facts.join(" · "), 40)));
}
