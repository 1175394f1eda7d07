// A form in a dialog: what it asks for is sent, and a refusal is shown in it.

import { element } from "./elements.js";
import { printable } from "./text.js";

// `go` is the button that sends; `work` does it, handed what closes the dialog; `leave` is what the button
// that does not says. `behind` stands behind the form.
export function openForm(attributes, heading, fields, { go, leave, work, behind = null }) {
  const problem = element("p", { class: "problem", role: "alert", hidden: true });
  const dialog = element("dialog", attributes,
    element("form", {
      method: "dialog",
      onsubmit: async (event) => {
        event.preventDefault();
        go.disabled = true;
        problem.hidden = true;
        try {
          await work(() => dialog.close());
        } catch (error) {
          problem.textContent = printable([error.message, error.hint].filter((part) => part).join(": "));
          problem.hidden = false;
        }
        go.disabled = false;
      },
    },
    element("h2", {}, heading),
    fields,
    problem,
    element("div", { class: "actions" }, go,
      element("button", { type: "button", onclick: () => dialog.close() }, leave))),
    behind);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
