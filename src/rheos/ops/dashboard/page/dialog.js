// A form in a dialog. It sends what the user has filled in, and shows a refusal.

import { element } from "./elements.js";
import { printable } from "./text.js";

const PROGRESS_EVERY_MS = 1000;

// `go` is the button that sends; `work` sends, and receives a function that closes the dialog; `leave` is
// the label of the button that only closes it. If `careful`, that button has the focus, so that Enter
// alone does nothing. While it works, what `progress()` returns is shown each second. `after` is shown
// below the form.
export function openForm(attributes, heading, fields, {
  go, leave, work, careful = false, progress = () => [], after = null,
}) {
  const working = element("p", { class: "quiet", role: "status" });
  const problem = element("p", { class: "problem", role: "alert", hidden: true });
  const dialog = element("dialog", attributes,
    element("form", {
      method: "dialog",
      onsubmit: async (event) => {
        event.preventDefault();
        go.disabled = true;
        problem.hidden = true;
        const look = () => { working.textContent = printable(["In progress.", ...progress()].join(" ")); };
        look();
        const looking = setInterval(look, PROGRESS_EVERY_MS);
        try {
          await work(() => dialog.close());
        } catch (error) {
          problem.textContent = printable([error.message, error.hint].filter((part) => part).join(": "));
          problem.hidden = false;
        }
        clearInterval(looking);
        working.textContent = "";
        go.disabled = false;
      },
    },
    element("h2", {}, heading),
    fields,
    working,
    problem,
    element("div", { class: "actions" }, go,
      element("button", { type: "button", autofocus: careful, onclick: () => dialog.close() }, leave))),
    after);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
