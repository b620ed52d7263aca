// Numbers and times: where ticks stand and what is written at them.

const SECOND = 1e3, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR
const STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, SECOND, 2e3, 5e3, 10e3, 15e3, 30e3, MINUTE, 2 * MINUTE, 5 * MINUTE,
  10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY,
  14 * DAY, 28 * DAY, 91 * DAY, 182 * DAY, 364 * DAY, 1820 * DAY,
]
const SPANS = [
  [10 * SECOND, "10 seconds"], [MINUTE, "1 minute"], [5 * MINUTE, "5 minutes"], [30 * MINUTE, "30 minutes"],
  [2 * HOUR, "2 hours"], [8 * HOUR, "8 hours"], [DAY, "1 day"], [3 * DAY, "3 days"], [7 * DAY, "1 week"],
  [30 * DAY, "30 days"], [91 * DAY, "3 months"], [365 * DAY, "1 year"],
]
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
const two = (n) => String(n).padStart(2, "0")

/** Round steps between `low` and `high`, at most `most` of them. */
export function ticks(low, high, most) {
  const rough = (high - low) / Math.max(most, 1)
  if (!(rough > 0)) return [low]
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough)
  return from(low, high, step)
}

function from(low, high, step) {
  const found = []
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(k * step || 0)
  return found
}

/** A number in about four digits. */
export function number(x) {
  if (x === null || x === undefined || !Number.isFinite(x)) return "–"
  const size = Math.abs(x)
  if (size < 1e-9) return "0"
  if (size >= 1e7 || (size > 0 && size < 1e-4)) return x.toExponential(1)
  const digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 1 ? 2 : 4
  return x.toLocaleString("en", { maximumFractionDigits: digits })
}

/** How long something lasts, given in ms. */
export function lasting(ms) {
  const units = [[DAY, "days"], [HOUR, "hours"], [MINUTE, "minutes"], [SECOND, "seconds"], [1, "ms"]]
  const [size, name] = units.find(([n]) => ms >= 2 * n) ?? units.at(-1)
  return `${number(Math.round((10 * ms) / size) / 10)} ${name}`
}

export const whole = (n) => Math.round(n).toLocaleString("en")

/** How times of a stream are read: time stamps in ms since 1970, numbers, or numbers of rows. */
export class Clock {
  constructor(kind) {
    this.stamped = kind === "stamp" || kind === "instant"
    this.title = { stamp: "time", instant: "time (UTC)", number: "time", row: "row" }[kind]
    this.kind = kind
  }

  ticks(low, high, most) {
    if (!this.stamped) return ticks(low, high, most).map((t) => [t, number(t)])
    const step = STEPS.find((s) => (high - low) / s <= most) ?? STEPS.at(-1)
    const origin = step >= 7 * DAY ? 4 * DAY : 0 // weeks begin on Mondays
    return from(low - origin, high - origin, step).map((t) => [t + origin, this.short(t + origin, step)])
  }

  short(t, step) {
    const d = new Date(t)
    if (step >= DAY) return `${d.getUTCDate()} ${MONTHS[d.getUTCMonth()]}${step >= 91 * DAY ? ` ${d.getUTCFullYear()}` : ""}`
    const minutes = `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}`
    if (minutes === "00:00" && t % DAY === 0) return `${d.getUTCDate()} ${MONTHS[d.getUTCMonth()]}`
    if (step >= MINUTE) return minutes
    const seconds = `${minutes}:${two(d.getUTCSeconds())}`
    return step >= SECOND ? seconds : `${seconds}.${String(d.getUTCMilliseconds()).padStart(3, "0")}`
  }

  /** A time in full, or its date only. */
  full(t, date = false) {
    if (t === null || !Number.isFinite(t)) return "–"
    if (!this.stamped) return (this.kind === "row" ? "row " : "") + number(t)
    const d = new Date(t)
    const day = `${d.getUTCDate()} ${MONTHS[d.getUTCMonth()]} ${d.getUTCFullYear()}`
    return date ? day : `${day} ${this.short(t, t % MINUTE ? SECOND : MINUTE)}`
  }

  /** A time as short as it can be beside another one. */
  near(t, now) {
    if (!this.stamped) return number(t)
    if (Math.abs(now - t) < DAY / 2) return this.short(t + (t % DAY ? 0 : 1), now % MINUTE || t % MINUTE ? SECOND : MINUTE)
    const d = new Date(t)
    return `${d.getUTCDate()} ${MONTHS[d.getUTCMonth()]} ${two(d.getUTCHours())}:${two(d.getUTCMinutes())}`
  }

  /** Spans to choose from, for what is known of a time: [length or null, words]. */
  spans(known) {
    const all = known[1] - known[0]
    if (!(all > 0)) return [[null, "everything"]]
    const choices = this.stamped
      ? SPANS
      : [1, 2, 5].flatMap((k) => [2, 3, 4, 5, 6, 7, 8].map((p) => k * 10 ** p))
        .sort((a, b) => a - b).map((n) => [n, `${whole(n)}${this.kind === "row" ? " rows" : ""}`])
    return [...choices.filter(([n]) => n < all && n > all / 5000).slice(-8), [null, "everything"]]
  }
}
