// Brings a part of the page up to date in place.
//
// A view builds what it wants to show, as if from nothing, each time that something has changed. `show`
// compares that with the elements that are there, and changes only what differs. Elements therefore stay
// the same while data changes: a slow click reaches its button, the focus and a selection stay, and what
// was scrolled remains scrolled.

import { handlersOf, nodes, setHandlers } from "./elements.js";

// Makes the children of `place` equal to `wanted`. An element with `data-key` is recognised by it among
// its siblings. The children of an element with `data-opaque` belong to somebody else, and are kept.
export function show(place, ...wanted) {
  reconcile(place, nodes(wanted));
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
}

function fits(have, want) {
  return have !== null && have.nodeName === want.nodeName && keyOf(have) === keyOf(want);
}

function reconcile(place, wanted) {
  const keys = new Set(wanted.map(keyOf).filter((key) => key !== null));
  const keyed = new Map();
  // What is gone is removed first. What remains then only moves where the order itself has changed: a
  // browser drops the click of an element that moves while it is pressed.
  for (const child of [...place.childNodes]) {
    const key = keyOf(child);
    if (key === null) continue;
    if (keys.has(key) && !keyed.has(key)) keyed.set(key, child);
    else child.remove();
  }
  let at = place.firstChild;
  for (const want of wanted) {
    const key = keyOf(want);
    const have = key === null ? at : keyed.get(key) ?? null;
    if (!fits(have, want)) {
      place.insertBefore(want, at);
      // An element without a key that does not fit is replaced, not kept for the next one.
      if (key === null && at !== null && keyOf(at) === null) at = removed(at);
      continue;
    }
    while (key !== null && at !== have && at !== null && keyOf(at) === null) at = removed(at);
    if (have === at) at = at.nextSibling;
    else place.insertBefore(have, at);
    update(have, want);
  }
  while (at !== null) at = removed(at);
}

function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function update(have, want) {
  if (have === want) return;
  if (have.nodeType !== Node.ELEMENT_NODE) {
    if (have.data !== want.data) have.data = want.data;
    return;
  }
  for (const { name } of [...have.attributes]) {
    if (!want.hasAttribute(name)) have.removeAttribute(name);
  }
  for (const { name, value } of want.attributes) {
    if (have.getAttribute(name) !== value) have.setAttribute(name, value);
  }
  const wantedHandlers = handlersOf(want);
  for (const name of handlersOf(have)) {
    if (!wantedHandlers.includes(name)) have[name] = null;
  }
  for (const name of wantedHandlers) have[name] = want[name];
  setHandlers(have, wantedHandlers);
  if (!have.hasAttribute("data-opaque")) reconcile(have, [...want.childNodes]);
}
