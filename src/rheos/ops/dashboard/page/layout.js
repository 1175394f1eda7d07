// Where the boxes and edges of a job's graph are drawn: from left to right, or on a narrow screen from top
// to bottom.

export const BOX_WIDTH = 236;
export const LINE = 46;
export const HEAD = 26;
const BETWEEN = 108;
const GAP = 26;
const MARGIN = 8;
const GUTTER = 44;
const DOWN_GAP = 34;

// Returns how far from the sources each chain is, by the longest way. Feedback edges do not count.
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

const heightOf = (chain) => HEAD + chain.operators.length * LINE;

// Returns { boxes, edges, width, height } for a plan. `boxes` is a Map of chain ids to { chain, x, y,
// width, height }; `edges` are { edge, path, label: { x, y } }.
export function layout(plan, available) {
  const across = acrossBoxes(plan);
  if (!available || across.width <= available || available > 760) {
    return { ...across, edges: plan.edges.map((edge) => acrossEdge(edge, across.boxes)) };
  }
  const down = downBoxes(plan, available);
  return { ...down, edges: plan.edges.map((edge) => downEdge(edge, down.boxes, plan)) };
}

function acrossBoxes(plan) {
  const depth = layers(plan);
  const columns = new Map();
  for (const chain of plan.chains) {
    const column = depth.get(chain.id);
    columns.set(column, [...(columns.get(column) ?? []), chain]);
  }
  const tall = (chains) => chains.reduce((all, chain) => all + heightOf(chain) + GAP, -GAP);
  const tallest = Math.max(...[...columns.values()].map(tall));
  const boxes = new Map();
  for (const [column, chains] of columns) {
    let y = MARGIN + (tallest - tall(chains)) / 2;
    for (const chain of chains) {
      const height = heightOf(chain);
      boxes.set(chain.id, { chain, x: MARGIN + column * (BOX_WIDTH + BETWEEN), y, width: BOX_WIDTH, height });
      y += height + GAP;
    }
  }
  return {
    boxes,
    width: 2 * MARGIN + columns.size * (BOX_WIDTH + BETWEEN) - BETWEEN,
    height: 2 * MARGIN + tallest,
  };
}

function downBoxes(plan, available) {
  const depth = layers(plan);
  const order = [...plan.chains].sort((one, two) => depth.get(one.id) - depth.get(two.id));
  const boxes = new Map();
  const width = available - GUTTER - MARGIN;
  let y = MARGIN;
  for (const chain of order) {
    const height = heightOf(chain);
    boxes.set(chain.id, { chain, x: GUTTER, y, width, height, place: boxes.size });
    y += height + DOWN_GAP;
  }
  return { boxes, width: available, height: y - DOWN_GAP + MARGIN };
}

// The middle of an operator's line in its box.
function lineOf(box, operator) {
  const line = Math.max(0, box.chain.operators.findIndex((each) => each.id === operator));
  return box.y + HEAD + line * LINE + LINE / 2;
}

function acrossEdge(edge, boxes) {
  const [from, to] = [boxes.get(edge.source), boxes.get(edge.target)];
  const start = { x: from.x + from.width, y: lineOf(from, edge.sender) };
  const end = { x: to.x, y: to.y + HEAD + LINE / 2 };
  const label = { x: (start.x + end.x) / 2, y: (start.y + end.y) / 2 - 9, anchor: "middle" };
  if (edge.feedback) {
    const below = Math.max(start.y, end.y) + 90;
    return { edge, label, path: `M${start.x},${start.y} C${start.x + 60},${below} ${end.x - 60},${below} ${end.x},${end.y}` };
  }
  const half = (end.x - start.x) / 2;
  return { edge, label, path: `M${start.x},${start.y} C${start.x + half},${start.y} ${end.x - half},${end.y} ${end.x},${end.y}` };
}

// An edge to the next box goes straight down; any other one goes through the gutter at the left.
function downEdge(edge, boxes) {
  const [from, to] = [boxes.get(edge.source), boxes.get(edge.target)];
  const label = { x: to.x + 34, y: to.y - DOWN_GAP / 2 + 4, anchor: "start" };
  if (to.place === from.place + 1 && !edge.feedback) {
    const x = to.x + 24;
    return { edge, label, path: `M${x},${from.y + from.height} L${x},${to.y}` };
  }
  const [start, end] = [lineOf(from, edge.sender), to.y + HEAD + LINE / 2];
  const out = Math.max(4, GUTTER - 10 - 9 * Math.abs(to.place - from.place));
  // Several edges to one box would have their labels at one place: these are at their own ends.
  const own = { x: 4, y: start - 8, anchor: "start" };
  return { edge, label: own, path: `M${from.x},${start} C${out},${start} ${out},${end} ${to.x},${end}` };
}
