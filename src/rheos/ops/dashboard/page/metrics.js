// Reads the metrics of a job: those of one place, over all subtasks, and shares of time.

const sum = (values) => values.reduce((all, value) => all + value, 0);

export class JobMetrics {
  constructor(object) {
    this.all = object?.metrics ?? {};
  }

  // Returns the readings of a metric whose labels have these values.
  readings(metric, labels = {}) {
    const found = this.all[metric]?.readings ?? [];
    const wanted = Object.entries(labels);
    return found.filter((reading) => wanted.every(([label, value]) => reading[label] === value));
  }

  total(metric, labels) {
    const found = this.readings(metric, labels);
    return found.length ? sum(found.map((reading) => reading.value)) : null;
  }

  most(metric, labels) {
    const found = this.readings(metric, labels);
    return found.length ? Math.max(...found.map((reading) => reading.value)) : null;
  }

  perSecond(metric, labels) {
    const found = this.readings(metric, labels).filter((reading) => reading.per_s !== undefined);
    return found.length ? sum(found.map((reading) => reading.per_s)) : null;
  }

  // Returns how much of their time the subtasks of a chain were busy, blocked and idle; null until known.
  shares(chain) {
    const of = (metric) => {
      const rates = this.readings(metric, { chain }).map((reading) => reading.per_s);
      return rates.length && rates.every((rate) => rate !== undefined) ? sum(rates) / rates.length / 1000 : null;
    };
    const busy = of("busy_ms");
    const held = of("backpressured_ms");
    if (busy === null) return null;
    return { busy, held: held ?? 0, idle: Math.max(0, 1 - busy - (held ?? 0)) };
  }

  // Returns the subtasks that have readings with these labels, in the order of their numbers. `metric`:
  // of this metric alone.
  subtasks(labels, metric = null) {
    const names = metric === null ? Object.keys(this.all) : [metric];
    const found = new Set(names.flatMap((name) => this.readings(name, labels).map((reading) => reading.subtask)));
    found.delete(undefined);
    return [...found].sort((one, two) => one - two);
  }
}
