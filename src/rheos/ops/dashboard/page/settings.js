// The tab of settings: what the job runs with, by the names of `rh.Settings`.

import { element, table } from "./elements.js";
import { show } from "./inplace.js";

const EVERY_MS = 30_000;

export const settingsTab = {
  id: "settings",
  label: "Settings",
  open(place, page, signal) {
    const found = element("section", {});
    place.replaceChildren(found);
    page.poll("settings", EVERY_MS, signal, (settings, refused) => {
      show(found, refused ? element("p", {}, refused.message) : table([
        { heading: "setting", cell: ([name]) => element("code", {}, name) },
        { heading: "value", wide: true, cell: ([, value]) => element("code", {}, value) },
      ], Object.entries(settings), { key: ([name]) => name }));
    }, { ofRunning: true });
    return () => {};
  },
};
