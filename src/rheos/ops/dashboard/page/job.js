// The page of one job: its name, health and buttons on top, tabs below, and the feed that all of it shows.

import { actions } from "./actions.js";
import { checkpointsTab } from "./checkpoints.js";
import { element } from "./elements.js";
import { eventsTab } from "./events.js";
import { JobMetrics } from "./metrics.js";
import { healthLine, waitsOf } from "./health.js";
import { show } from "./inplace.js";
import { state } from "./jobs.js";
import { logsTab } from "./logs.js";
import { operatorsTab } from "./operators.js";
import { overviewTab } from "./overview.js";
import { asked, get, later, listen } from "./rest.js";
import { jobAddress } from "./route.js";
import { settingsTab } from "./settings.js";

// A tab has { id, label, open(place, page, signal) }. `open` returns what is called after each change.
const TABS = [overviewTab, operatorsTab, checkpointsTab, eventsTab, logsTab, settingsTab];
const PLAN_AGAIN_MS = 2000;
const SOON_MS = 200;

export class JobPage {
  constructor(view, key, signal, notice) {
    this.key = key;
    this.signal = signal;
    this.notice = notice;
    this.job = null;
    this.problem = null;
    this.health = null;
    this.metrics = new JobMetrics(null);
    this.plan = null;
    this.planOf = null;
    this.operator = null;
    this.tab = null;
    this.ofTab = new AbortController();
    this.drawTab = () => {};
    this.head = element("section", { class: "head" });
    this.tabs = element("div", { class: "tabs", role: "tablist", "aria-label": "Views of the job", onkeydown: (event) => this.moved(event) });
    this.place = element("div", { class: "tab", role: "tabpanel", id: "tab" });
    view.replaceChildren(this.head, this.tabs, this.place);
    signal.addEventListener("abort", () => this.ofTab.abort());
  }

  // Shows a tab, and of the operators one, by the address.
  go({ tab, operator }) {
    this.operator = operator;
    const wanted = TABS.find(({ id }) => id === tab) ?? TABS[0];
    if (wanted !== this.tab) {
      this.ofTab.abort();
      this.ofTab = new AbortController();
      this.tab = wanted;
      this.place = replaced(this.place, wanted.id);
      this.drawTab = wanted.open(this.place, this, this.ofTab.signal);
    }
    this.draw();
  }

  async follow() {
    this.followPlan();
    await listen(`/jobs/${encodeURIComponent(this.key)}/events`, this.signal, (kind, data) => {
      if (kind === "problem") {
        this.problem = data;
        this.draw();
        return this.notice(data);
      }
      this.notice(null);
      this.problem = null;
      this.job = data.job;
      this.health = data.health ?? data.job.health ?? null;
      this.metrics = new JobMetrics(data.metrics);
      this.draw();
      return undefined;
    });
  }

  // The plan is asked for once for each start of the job: another version may run after it.
  async followPlan() {
    while (!this.signal.aborted) {
      const of = this.job?.runs ? `${this.job.started_ms} ${this.job.pid} ${this.job.host}` : null;
      if (of !== null && of !== this.planOf) {
        try {
          this.plan = await get(this.path("plan"), this.signal);
          this.planOf = of;
          this.draw();
        } catch (problem) {
          if (!this.signal.aborted) this.notice({ what: problem.message, hint: problem.hint });
        }
      }
      await later(this.planOf === null ? SOON_MS : PLAN_AGAIN_MS, this.signal);
    }
  }

  path(what) {
    return `/jobs/${encodeURIComponent(this.key)}/${what}`;
  }

  // Asks for a part of the job now, and then every `everyMs` until `signal` aborts. Calls
  // `heard(data, null)`, or `heard(null, problem)`. Nothing is asked of a job that is not known, or which
  // does not run if only a running job has that part.
  async poll(what, everyMs, signal, heard, { ofRunning = false } = {}) {
    while (!signal.aborted) {
      const missing = this.job === null || (ofRunning && !this.job.runs);
      if (!missing) {
        const answer = await asked(this.path(what), signal);
        if (answer !== null) heard(answer.data, answer.problem);
      } else if (this.job !== null) {
        heard(null, { message: "The job does not run: only a running job has this." });
      }
      await later(missing ? SOON_MS : everyMs, signal);
    }
  }

  // The names of the operators, by id. Where several have one name, the id is in it.
  names() {
    const all = (this.plan?.chains ?? []).flatMap((chain) => chain.operators);
    const shared = (name) => all.filter((each) => each.name === name).length > 1;
    return new Map(all.map(({ id, name }) => [id, shared(name) ? `${name} (${id})` : name]));
  }

  draw() {
    show(this.tabs, TABS.map(({ id, label }) => element("a", {
      role: "tab", href: jobAddress(this.key, id), "data-key": id, "aria-controls": "tab",
      "aria-selected": id === this.tab?.id ? "true" : "false",
    }, label)));
    const { job } = this;
    this.tabs.hidden = job === null;
    this.place.hidden = job === null;
    if (job === null) {
      show(this.head, element("p", {}, this.problem === null ? "Looking for the job."
        : "This page shows the job as soon as it is there."));
      return;
    }
    document.title = `${job.name} - Rheos`;
    show(this.head,
      element("div", { class: "row title" }, element("h1", {}, job.name), state(job)),
      healthLine(this.health, this.key),
      waitsOf(job).map((said) => element("p", { class: "waits" }, said)),
      job.runs ? actions(job, () => waitsOf(this.job), (said) => this.notice({ what: said })) : null);
    this.drawTab();
  }

  // Arrow keys move between tabs.
  moved(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const all = [...this.tabs.children];
    const at = all.indexOf(document.activeElement);
    if (step === undefined || at < 0) return;
    event.preventDefault();
    const next = all[(at + step + all.length) % all.length];
    next.focus();
    location.hash = next.getAttribute("href");
  }
}

function replaced(place, id) {
  const made = element("div", { class: `tab ${id}`, role: "tabpanel", id: "tab" });
  place.replaceWith(made);
  return made;
}
