// Builds elements. A string is always inserted as text: the page never parses what a job reports as HTML.

import { moment, printable } from "./text.js";

const SHOWN = ["title", "aria-label", "data-label"];
const SVG = "http://www.w3.org/2000/svg";
const handlers = new WeakMap();

// Names of the event handlers that `element` or `drawn` set on a node, such as "onclick".
export function handlersOf(node) {
  return handlers.get(node) ?? [];
}

export function setHandlers(node, names) {
  if (names.length) handlers.set(node, names);
  else handlers.delete(node);
}

function filled(made, attributes, children) {
  const handled = [];
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      made[name] = value;
      handled.push(name);
    } else if (SHOWN.includes(name)) {
      made.setAttribute(name, printable(String(value)));
    } else {
      made.setAttribute(name, value === true ? "" : value);
    }
  }
  setHandlers(made, handled);
  made.append(...nodes(children));
  return made;
}

// Flattens nested lists of nodes and strings. `null` and `undefined` are left out.
export function nodes(children) {
  return children.flat(Infinity)
    .filter((child) => child !== null && child !== undefined)
    .map((child) => (child instanceof Node ? child : document.createTextNode(printable(String(child)))));
}

export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

// A time, in ms since the epoch.
export function at(ms) {
  return ms === null || ms === undefined ? null : element("time", { datetime: moment(ms) }, moment(ms));
}

// Builds a table. `columns` are { heading, cell(row), number } in order; `key(row)` is unique, so that a
// row keeps its element when rows come and go. On a narrow screen each row is shown as a list of headings
// and values, so each cell carries its heading.
export function table(columns, rows, { caption = null, key = null, row = () => ({}), stacks = true } = {}) {
  const head = columns.map((column) =>
    element("th", { scope: "col", class: column.number ? "number" : null }, column.heading));
  const body = rows.map((each, n) =>
    element("tr", { "data-key": key === null ? null : `row ${key(each, n)}`, ...row(each) },
      columns.map((column) => cell(column, each))));
  return element("div", { class: "scrolls" }, element("table", { class: stacks ? "stacks" : null },
    caption === null ? null : element("caption", {}, caption),
    element("thead", {}, element("tr", {}, head)),
    element("tbody", {}, body)));
}

function cell(column, row) {
  const shown = column.cell(row) ?? "";
  const classes = [column.number ? "number" : null, column.wide ? "wide" : null, shown === "" ? "empty" : null];
  return element("td", {
    class: classes.filter((each) => each).join(" ") || null, "data-label": column.heading,
  }, shown);
}
