// Which part of the page is shown, by the address behind its #.

import { element } from "./elements.js";
import { showJob } from "./job.js";
import { showJobs } from "./jobs.js";
import { keepToken, signIn } from "./rest.js";
import { showRest } from "./restpage.js";
import { printable } from "./text.js";

const view = document.getElementById("view");
const trail = document.getElementById("trail");
const bar = document.getElementById("notice");
let showing = new AbortController();

// What is wrong at the moment, or was just done; null takes it away, where it was a problem.
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
  const token = element("input", { type: "password", name: "token", autocomplete: "off", required: true });
  view.replaceChildren(element("form", {
    class: "token",
    onsubmit: (event) => {
      event.preventDefault();
      keepToken(token.value.trim());
      show();
    },
  }, element("h1", {}, "Which token?"),
  element("p", {}, "`rheos dashboard` prints which file has it, or the file of tokens has yours."),
  element("label", {}, "Token", token), element("button", { type: "submit", class: "main" }, "Open")));
  token.focus();
}

function show() {
  showing.abort();
  showing = new AbortController();
  const { signal } = showing;
  bar.hidden = true;
  const [, part, key] = location.hash.split("/");
  trail.replaceChildren(...(part ? [element("a", { href: "#/" }, "Jobs")] : []));
  const shown = part === "job" ? showJob(view, key, signal, notice)
    : part === "rest" ? showRest(view, signal)
      : showJobs(view, signal, notice);
  shown.catch((error) => {
    if (!signal.aborted) notice({ what: error.message, hint: null });
  });
  view.focus({ preventScroll: true });
}

addEventListener("hashchange", async () => {
  await signIn();
  show();
});
if (await signIn() || location.hash === "#/rest") show();
else askForToken();
