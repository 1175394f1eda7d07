// One operator: its subtasks, the channels of its chain, and what the program counts.

import { element, table } from "./elements.js";
import { count, duration, inUnit, share, size } from "./text.js";

export function operatorPanel(plan, figures, id, close) {
  const chain = plan.chains.find((each) => each.operators.some((operator) => operator.id === id));
  if (!chain) return null;
  const operator = chain.operators.find((each) => each.id === id);
  const outputs = Object.entries(operator.outputs).map(([tag, columns]) =>
    element("p", {}, `${tag === "" ? "emits" : `emits ${tag}`}: `, element("code", {}, columns)));
  return element("section", { class: "panel", "aria-label": operator.name },
    element("div", { class: "row" },
      element("h2", {}, operator.name),
      element("button", { type: "button", onclick: close }, "Close")),
    element("p", {}, element("code", {}, operator.id), " written at ", element("code", {}, operator.site)),
    operator.note ? element("p", {}, operator.note) : null,
    outputs,
    subtasks(figures, chain, operator),
    channels(plan, figures, chain),
    counted(figures, operator));
}

function subtasks(figures, chain, operator) {
  const at = (subtask) => ({ operator: operator.id, subtask });
  const of = (subtask) => {
    const rate = (figure) => figures.perSecond(figure, { chain: chain.id, subtask });
    return (figure) => (rate(figure) === null ? null : rate(figure) / 1000);
  };
  const columns = [
    { heading: "subtask", cell: (subtask) => subtask },
    { heading: "rows in", number: true, cell: (s) => count(figures.total("rows_in", at(s))) },
    { heading: "/s", number: true, cell: (s) => count(figures.perSecond("rows_in", at(s))) },
    { heading: "rows out", number: true, cell: (s) => count(figures.total("rows_out", at(s))) },
    { heading: "/s", number: true, cell: (s) => count(figures.perSecond("rows_out", at(s))) },
    { heading: "busy", number: true, cell: (s) => share(of(s)("busy_ms")) },
    { heading: "held up", number: true, cell: (s) => share(of(s)("backpressured_ms")) },
    { heading: "watermark lag", number: true, cell: (s) => duration(figures.most("watermark_lag_ms", at(s))) },
    { heading: "state", number: true, cell: (s) => size(figures.total("state_bytes", at(s))) },
    { heading: "keys", number: true, cell: (s) => count(figures.total("keys", at(s))) },
    { heading: "records behind", number: true, cell: (s) => count(figures.total("source_lag_rows", at(s))) },
  ];
  const found = figures.subtasks({ operator: operator.id });
  return found.length ? table(columns, found, { caption: "Subtasks" }) : null;
}

function channels(plan, figures, chain) {
  const rows = plan.edges
    .filter((edge) => edge.source === chain.id || edge.target === chain.id)
    .flatMap((edge) => figures.subtasks({ edge: edge.id }).map((subtask) => ({ edge, subtask })));
  if (!rows.length) return null;
  const at = ({ edge, subtask }) => ({ edge: edge.id, subtask });
  const columns = [
    { heading: "edge", cell: ({ edge }) => `${edge.source} → ${edge.target}` },
    { heading: "how", cell: ({ edge }) => [edge.exchange, ...edge.keys].join(" ") },
    { heading: "subtask", cell: ({ subtask }) => subtask },
    { heading: "sent /s", number: true, cell: (r) => count(figures.perSecond("sent_rows", at(r))) },
    { heading: "sent bytes /s", number: true, cell: (r) => size(figures.perSecond("sent_bytes", at(r))) },
    { heading: "received /s", number: true, cell: (r) => count(figures.perSecond("received_rows", at(r))) },
    { heading: "waiting to be sent", number: true, cell: (r) => count(figures.total("buffered_rows", at(r))) },
    { heading: "credits in use", number: true, cell: (r) => count(figures.total("credits_used", at(r))) },
    { heading: "queued", number: true, cell: (r) => count(figures.total("queued_batches", at(r))) },
  ];
  return table(columns, rows, { caption: "Channels of its chain" });
}

function counted(figures, operator) {
  const rows = ["counter", "gauge", "accumulated"].flatMap((figure) => {
    const readings = figures.readings(figure, { operator: operator.id });
    return [...new Set(readings.map((reading) => reading.name))].map((name) => ({ figure, name }));
  });
  if (!rows.length) return null;
  const value = ({ figure, name }) => {
    const labels = { operator: operator.id, name };
    if (figure === "gauge") return inUnit("", figures.most(figure, labels));
    if (figure === "counter") return count(figures.total(figure, labels));
    return figures.readings(figure, labels).map((r) => `${count(r.n)} of mean ${count(r.mean)}`).join("; ");
  };
  const columns = [
    { heading: "name", cell: ({ name }) => name },
    { heading: "kind", cell: ({ figure }) => figure },
    { heading: "value", number: true, cell: value },
  ];
  return table(columns, rows, { caption: "Counted by the operator and the program" });
}
