// The buckets that are shown: what the server sent, put together.

export class History {
  constructor() {
    this.clear()
  }

  clear() {
    this.level = -1
    this.first = 0
    this.columns = {}
    this.length = 0
    this.span = [0, 1]
    this.known = [NaN, NaN]
    this.shown = []
    this.now = null
  }

  /** Take a frame: buckets from number `from` on, of which those before `first` are over. */
  take(frame) {
    const names = frame.columns ? Object.keys(frame.columns) : []
    const same = frame.level === this.level && frame.shown.join() === this.shown.join()
    const skip = same ? Math.max(frame.first - this.first, 0) : 0
    const keep = same ? Math.max(0, Math.min(frame.from - this.first, this.length)) : 0
    for (const name of names) {
      const old = same ? this.columns[name].subarray(Math.min(skip, keep), keep) : new Float64Array(0)
      const both = new Float64Array(old.length + frame.columns[name].length)
      both.set(old)
      both.set(frame.columns[name], old.length)
      this.columns[name] = both
    }
    Object.assign(this, {
      level: frame.level, first: frame.first, span: frame.span, known: frame.known, shown: frame.shown, now: frame.now,
    })
    this.length = names.length ? this.columns.begin.length : 0
    this.gap = gapOf(this.columns.begin)
  }

  /** The time at which bucket `i` ends in the picture: where the next begins, unless there is a gap. */
  until(i) {
    const { begin, end } = this.columns
    const next = i + 1 < this.length ? begin[i + 1] : end[i]
    const last = end[i] - begin[i] > this.gap ? begin[i] : end[i] // somewhere within it there is a gap
    return next - begin[i] > this.gap ? Math.min(next, last + this.gap / 6) : next
  }

  broken(i) {
    return i > 0 && this.columns.begin[i] - this.columns.begin[i - 1] > this.gap
  }

  /** The labels of most buckets, by their ids. */
  labels(most) {
    const count = new Map()
    for (const label of this.columns.label ?? []) if (label >= 0) count.set(label, (count.get(label) ?? 0) + 1)
    const now = this.now?.label ?? -1
    if (count.has(now)) count.set(now, Infinity)
    return [...count].sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, most).map(([label]) => label).sort((a, b) => a - b)
  }

  /** The bucket at a time. */
  at(t) {
    const { begin } = this.columns
    let [low, high] = [0, this.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (begin[middle] <= t) low = middle + 1
      else high = middle
    }
    return low - 1
  }
}

/** What counts as a gap: eight times the usual distance. */
function gapOf(begin) {
  if (!begin || begin.length < 3) return Infinity
  const steps = begin.subarray(1).map((t, i) => t - begin[i]).sort()
  return 8 * (steps[steps.length >> 1] || steps.at(-1)) || Infinity
}
