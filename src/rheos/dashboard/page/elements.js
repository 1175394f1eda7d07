// Elements of the page. Texts are always texts: nothing that a job says is read as HTML.

import { printable } from "./text.js";

const SHOWN = ["title", "aria-label"];
const SVG = "http://www.w3.org/2000/svg";

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (SHOWN.includes(name)) made.setAttribute(name, printable(String(value)));
    else made.setAttribute(name, value === true ? "" : value);
  }
  const there = children.flat().filter((child) => child !== null && child !== undefined);
  made.append(...there.map((child) => (typeof child === "string" ? printable(child) : child)));
  return made;
}

export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

// A table: `columns` are { heading, cell(row), number } in order.
export function table(columns, rows, { caption = null, row = () => ({}) } = {}) {
  const head = columns.map((column) =>
    element("th", { scope: "col", class: column.number ? "number" : null }, column.heading));
  const body = rows.map((each) =>
    element("tr", row(each), columns.map((column) =>
      element("td", { class: column.number ? "number" : null }, column.cell(each) ?? ""))));
  return element("div", { class: "scrolls" }, element("table", {},
    caption === null ? null : element("caption", {}, caption),
    element("thead", {}, element("tr", {}, head)),
    element("tbody", {}, body)));
}
