// Many streams: a card each, those with an alarm first, then those that changed their regime last.

import { inks, surface } from "./colours.js"
import { brief, element } from "./panels.js"
import { whole } from "./scales.js"

const SPARK = 30, RIBBON = 8

/** Why there is no threshold yet. */
export function calibrating(facts, needed) {
  const of = needed ? ` of ${whole(needed)}` : ""
  return `calibrating: ${whole(facts.rows)}${facts.rows < needed ? of : ""} rows`
}

export class Fleet {
  constructor(grid, addressOf) {
    this.grid = grid
    this.addressOf = addressOf
    this.cards = new Map()
    this.filter = ""
    this.seen = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const card = this.cards.get(target.dataset.key)
        if (!card) continue
        card.visible = isIntersecting
        if (isIntersecting) this.draw(card)
      }
    }, { rootMargin: "200px" })
  }

  clear(needed = 0) {
    this.needed = needed
    this.seen.disconnect()
    this.cards.clear()
    this.grid.replaceChildren()
  }

  /** Take a frame of cards that changed. */
  take(frame, colours, clock) {
    this.colours = colours
    this.clock = clock
    let at = 0
    for (const facts of frame.cards) {
      const card = this.cards.get(facts.key) ?? this.make(facts.key)
      card.facts = facts
      card.labels = frame.columns.label.slice(at, at + facts.n)
      card.scores = frame.columns.score.slice(at, at + facts.n)
      at += facts.n
      this.write(card)
      if (card.visible) this.draw(card)
    }
    this.arrange()
  }

  make(key) {
    const card = { key, visible: false }
    card.title = element("b", { words: key })
    card.regime = element("span", { kind: "regime" })
    card.state = element("div", { kind: "state" })
    card.canvas = element("canvas", { ariaHidden: "true" })
    card.box = element("a", { kind: "card", href: this.addressOf(key) }, element("div", {}, card.title, card.regime), card.canvas, card.state)
    card.box.dataset.key = key
    this.cards.set(key, card)
    this.seen.observe(card.box)
    return card
  }

  write(card) {
    const { facts } = card
    const regime = facts.label < 0 ? "warm-up" : facts.name ?? (facts.number ? `regime ${facts.number}` : `id ${facts.label}`)
    if (card.regime.textContent !== regime) card.regime.textContent = regime
    const when = facts.raised ? this.clock.near(facts.began ?? facts.alarmed, facts.t) : ""
    const calm = facts.threshold === null ? calibrating(facts, this.needed) : facts.since === null ? "no alarm" : `no alarm, ${regime} since ${this.clock.near(facts.since, facts.t)}`
    const seen = facts.silent !== null ? `${facts.alarm ? "alarm, " : ""}silent${facts.silent ? `: ${facts.silent}` : ""}` : facts.alarm && facts.by ? `alarm, seen by ${facts.by}` : calm
    const why = facts.why ? `: ${brief(facts.why)}` : ""
    const state = facts.raised ? `▲ alarm ${facts.alarm ? "now" : when}${why}` : seen
    if (card.state.textContent !== state) card.state.textContent = state
    card.box.classList.toggle("raised", facts.raised)
    card.rank = facts.alarm && facts.raised ? 0 : facts.raised ? 1 : 2
  }

  /** Those with an alarm first, the latest on top; then those whose regime changed last; then by key. */
  arrange() {
    const latest = ({ rank, facts }) => (rank < 2 ? facts.alarmed : facts.since) ?? -Infinity
    const later = (a, b) => (latest(a) === latest(b) ? 0 : latest(b) > latest(a) ? 1 : -1)
    const order = [...this.cards.values()].sort(
      (a, b) => a.rank - b.rank || later(a, b) || a.key.localeCompare(b.key, "en", { numeric: true }),
    )
    order.forEach((card, i) => {
      card.box.hidden = !card.key.toLowerCase().includes(this.filter)
      if (this.grid.children[i] !== card.box) this.grid.insertBefore(card.box, this.grid.children[i] ?? null)
    })
  }

  redraw(colours) {
    this.colours = colours
    for (const card of this.cards.values()) if (card.visible) this.draw(card)
  }

  draw(card) {
    const width = card.canvas.clientWidth
    if (!width || !card.facts) return
    const pen = surface(card.canvas, width, SPARK + RIBBON + 8)
    const ink = inks()
    const { scores, labels } = card
    const { threshold } = card.facts
    const all = [...scores, threshold ?? NaN].filter(Number.isFinite)
    const [low, high] = [Math.min(...all), Math.max(...all)]
    const y = (v) => 2 + (SPARK - 4) * (1 - (Math.min(v, high) - low) / (high - low || 1))
    const x = (i) => ((i + 0.5) / scores.length) * width
    pen.beginPath()
    scores.forEach((v, i) => Number.isFinite(v) && pen.lineTo(x(i), y(v)))
    pen.strokeStyle = ink.text
    pen.lineWidth = 1.2
    pen.stroke()
    if (threshold !== null) {
      pen.beginPath()
      pen.setLineDash([4, 3])
      pen.moveTo(0, y(threshold))
      pen.lineTo(width, y(threshold))
      pen.strokeStyle = ink.alarm
      pen.stroke()
      pen.setLineDash([])
    }
    labels.forEach((label, i) => {
      pen.fillStyle = this.colours.of(label)
      pen.fillRect((i / labels.length) * width, SPARK + 6, width / labels.length + 0.6, RIBBON)
    })
  }
}
