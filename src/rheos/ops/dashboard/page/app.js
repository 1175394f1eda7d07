// Shows the part of the page that the address asks for.

import { element } from "./elements.js";
import { show } from "./inplace.js";
import { JobPage } from "./job.js";
import { showJobs } from "./jobs.js";
import { keepToken, signIn } from "./rest.js";
import { showRest } from "./restpage.js";
import { routeOf } from "./route.js";
import { printable } from "./text.js";

const view = document.getElementById("view");
const trail = document.getElementById("trail");
const bar = document.getElementById("notice");
let showing = new AbortController();
let job = null;

// Shows a problem, or what was just done. `null` removes a problem, and leaves anything else.
function notice(said) {
  if (said === null) {
    if (bar.classList.contains("problem")) bar.hidden = true;
    return;
  }
  if (said.status === 401) {
    askForToken();
    return;
  }
  bar.textContent = printable([said.what, said.hint].filter((part) => part).join(": "));
  bar.classList.toggle("problem", said.hint !== undefined);
  bar.hidden = false;
}

function askForToken() {
  showing.abort();
  job = null;
  const token = element("input", { type: "password", name: "token", autocomplete: "off", required: true });
  view.replaceChildren(element("form", {
    class: "token",
    onsubmit: (event) => {
      event.preventDefault();
      keepToken(token.value.trim());
      go();
    },
  }, element("h1", {}, "Sign in"),
  element("p", {}, "`rheos dashboard` prints the file that has the token; with a file of tokens, it is your own."),
  element("label", {}, "Token", token), element("button", { type: "submit", class: "main" }, "Open")));
  token.focus();
}

function go() {
  const route = routeOf(location.hash);
  if (route.view === "job" && job?.key === route.key && !showing.signal.aborted) {
    job.go(route);
    return;
  }
  showing.abort();
  showing = new AbortController();
  const { signal } = showing;
  job = null;
  bar.hidden = true;
  document.title = "Rheos";
  view.replaceChildren();
  show(trail, route.view === "jobs" ? null : element("a", { href: "#/" }, "Jobs"));
  shown(route, signal).catch((error) => {
    if (!signal.aborted) notice({ what: error.message, hint: null });
  });
  view.focus({ preventScroll: true });
}

async function shown(route, signal) {
  if (route.view === "rest") return showRest(view, signal);
  if (route.view === "jobs") return showJobs(view, signal, notice);
  job = new JobPage(view, route.key, signal, notice);
  job.go(route);
  return job.follow();
}

addEventListener("hashchange", async () => {
  await signIn();
  go();
});
if (await signIn() || routeOf(location.hash).view === "rest") go();
else askForToken();
