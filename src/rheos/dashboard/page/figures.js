// Reads the figures of a job: those of one place, over all subtasks, and shares of time.

const sum = (values) => values.reduce((all, value) => all + value, 0);

export class Figures {
  constructor(object) {
    this.all = object?.figures ?? {};
  }

  // The readings of a figure at which the labels have these values.
  readings(figure, labels = {}) {
    const found = this.all[figure]?.readings ?? [];
    const wanted = Object.entries(labels);
    return found.filter((reading) => wanted.every(([label, value]) => reading[label] === value));
  }

  unit(figure) {
    return this.all[figure]?.unit ?? "count";
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

  // Of time: how much of it the subtasks of a chain were busy, held up and idle; null before it is known.
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

  subtasks(labels) {
    const found = new Set();
    for (const { readings } of Object.values(this.all)) {
      for (const reading of readings) {
        const fits = Object.entries(labels).every(([label, value]) => reading[label] === value);
        if (fits && reading.subtask !== undefined) found.add(reading.subtask);
      }
    }
    return [...found].sort((one, two) => one - two);
  }
}
