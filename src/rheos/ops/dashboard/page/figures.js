// Reads the figures of a job: those of one place, over all subtasks, and shares of time.

const sum = (values) => values.reduce((all, value) => all + value, 0);

export class Figures {
  constructor(object) {
    this.all = object?.figures ?? {};
  }

  // Returns the readings of a figure whose labels have these values.
  readings(figure, labels = {}) {
    const found = this.all[figure]?.readings ?? [];
    const wanted = Object.entries(labels);
    return found.filter((reading) => wanted.every(([label, value]) => reading[label] === value));
  }

  total(figure, labels) {
    const found = this.readings(figure, labels);
    return found.length ? sum(found.map((reading) => reading.value)) : null;
  }

  most(figure, labels) {
    const found = this.readings(figure, labels);
    return found.length ? Math.max(...found.map((reading) => reading.value)) : null;
  }

  perSecond(figure, labels) {
    const found = this.readings(figure, labels).filter((reading) => reading.per_s !== undefined);
    return found.length ? sum(found.map((reading) => reading.per_s)) : null;
  }

  // Returns how much of their time the subtasks of a chain were busy, blocked and idle; null until known.
  shares(chain) {
    const of = (figure) => {
      const rates = this.readings(figure, { chain }).map((reading) => reading.per_s);
      return rates.length && rates.every((rate) => rate !== undefined) ? sum(rates) / rates.length / 1000 : null;
    };
    const busy = of("busy_ms");
    const held = of("backpressured_ms");
    if (busy === null) return null;
    return { busy, held: held ?? 0, idle: Math.max(0, 1 - busy - (held ?? 0)) };
  }

  // Returns the subtasks that have readings with these labels, in the order of their numbers. `figure`:
  // of this figure alone.
  subtasks(labels, figure = null) {
    const names = figure === null ? Object.keys(this.all) : [figure];
    const found = new Set(names.flatMap((name) => this.readings(name, labels).map((reading) => reading.subtask)));
    found.delete(undefined);
    return [...found].sort((one, two) => one - two);
  }
}
