// The tables beside the picture. Whatever comes from data enters the page as text only.

import { number, whole } from "./scales.js"

const MOST_EVENTS = 300

export function element(tag, options = {}, ...children) {
  const { kind, words, ...rest } = options
  const made = Object.assign(document.createElement(tag), rest)
  if (kind) made.className = kind
  if (words !== undefined) made.textContent = words
  made.append(...children)
  return made
}

/** Close a menu by a click beside it, or Escape. */
export function dropdown(box) {
  addEventListener("click", (event) => event.composedPath().includes(box) || (box.open = false))
  box.onkeydown = (event) => {
    if (event.key !== "Escape" || !box.open) return
    event.stopPropagation()
    box.open = false
    box.querySelector("summary").focus()
  }
}

export function swatch(box, colour) {
  box.style.background = colour ?? "transparent"
  box.style.borderColor = colour ?? ""
}

function put(box, words) {
  if (box.textContent !== words) box.textContent = words
}

/** Say how many regimes the last rows have, the most probable numbers first. */
export function inWords(counts) {
  const likely = counts.map((p, n) => [Math.round(100 * p), n]).filter(([p]) => p >= 1)
  const said = likely.sort((a, b) => b[0] - a[0]).slice(0, 3).map(([p, n]) => `${n} (${p} %)`)
  return said.length ? `How many in the last rows: ${said.join(", ")}` : ""
}

/** The table of regimes or stories, a body of two rows each; they stay where they are while somebody writes in one. */
export class Regimes {
  constructor(table, named, visit) {
    this.table = table
    this.rows = new Map()
    this.named = named
    this.visit = visit // goes to a time
  }

  clear() {
    for (const row of this.rows.values()) row.box.remove()
    this.rows.clear()
  }

  show(tables, scene, paint) {
    const now = scene.history.now?.label
    const drawn = scene.graph?.labels ?? [] // the largest of the span that is shown, in order
    const place = (regime) => (drawn.indexOf(regime.label) + 1 || Infinity)
    const ranked = (a, b) => (place(a) === place(b) ? b.live - a.live || b.rows - a.rows : place(a) - place(b))
    const regimes = [...tables.regimes].sort(ranked)
    const known = new Set(regimes.map((regime) => regime.label))
    for (const [label, row] of this.rows) if (!known.has(label)) row.box.remove(), this.rows.delete(label)
    const stories = new Map(tables.stories.map((story) => [story.label, story]))
    regimes.forEach((regime, i) => {
      if (!this.rows.has(regime.label)) this.rows.set(regime.label, this.make(regime.label))
      const row = this.rows.get(regime.label)
      swatch(row.swatch, paint?.get(regime.label))
      put(row.who, scene.nameOf(regime.label))
      put(row.id, scene.nameOf(regime.label).startsWith("id ") ? "" : ` id ${regime.label}`)
      put(row.words, words(regime, stories.get(regime.label)))
      put(row.fresh, regime.new ? "new" : "")
      put(row.rows, whole(regime.rows))
      row.seen = regime.last
      put(row.last, scene.clock.near(regime.last, scene.history.known[1]))
      row.name = tables.names[regime.label] ?? ""
      row.judged = tables.verdicts[regime.label] ?? "normal"
      put(row.verdict, row.judged === "normal" ? "" : row.judged)
      row.verdict.classList.toggle("fault", row.judged === "fault")
      row.box.classList.toggle("gone", !regime.live)
      if (this.table.tBodies[i] !== row.box && !this.table.contains(document.activeElement)) {
        this.table.insertBefore(row.box, this.table.tBodies[i] ?? null)
      }
    })
    this.mark(now)
  }

  /** Show which one is current. */
  mark(now) {
    for (const [label, row] of this.rows) row.box.toggleAttribute("aria-current", label === now)
  }

  make(label) {
    const row = { name: "", judged: "normal" }
    for (const kind of ["swatch", "id", "fresh", "verdict", "words"]) row[kind] = element("span", { kind })
    row.who = element("button", { kind: "who", title: "Go to its last row", onclick: () => this.visit(row.seen) })
    row.fresh.className = "new"
    row.rows = element("td", { kind: "n" })
    row.last = element("td", { kind: "n" })
    const button = element("button", { words: "Name", title: "Give it a name, or say that it is planned or a fault", ariaLabel: `Name ${label}` })
    const cell = element("td", {}, button)
    button.onclick = () => this.edit(cell, button, label, row)
    const what = element("td", {}, row.swatch, row.who, row.id, row.verdict, row.fresh)
    const more = element("tr", {}, element("td", { colSpan: 4 }, row.words))
    row.box = element("tbody", {}, element("tr", {}, what, row.rows, row.last, cell), more)
    this.table.append(row.box)
    return row
  }

  edit(cell, button, label, row) {
    const input = element("input", { value: row.name, maxLength: 60, ariaLabel: `Name of ${label}` })
    const verdict = element("select", { ariaLabel: `What ${label} is`, title: "Planned: no alarm. Fault: an alarm at once." })
    verdict.append(...["normal", "planned", "fault"].map((words) => element("option", { words })))
    verdict.value = row.judged
    const form = element("span", { kind: "edit" }, input, verdict)
    const done = (keep) => {
      if (!input.isConnected) return
      if (keep) this.named(label, input.value, verdict.value)
      form.onfocusout = null
      cell.replaceChildren(button)
      button.focus()
    }
    form.onkeydown = (event) => {
      event.stopPropagation()
      if (!["Enter", "Escape"].includes(event.key)) return
      event.preventDefault() // or Enter would press the button that is focused next
      done(event.key === "Enter")
    }
    verdict.onchange = () => done(true)
    form.onfocusout = (event) => form.contains(event.relatedTarget) || done(false)
    cell.replaceChildren(form)
    input.focus()
    input.select()
  }
}

function words(regime, story) {
  if (!story) return regime.words
  const theme = story.theme ? [`Theme: ${story.theme}`] : []
  return [story.words, ...theme, ...story.examples.map((text) => `“${text.slice(0, 140)}${text.length > 140 ? "…" : ""}”`)].join("\n")
}

/** The first of the reasons for an alarm. */
export const brief = (why) => why.split(/[:;]/)[0]

/** Whether an event is worth telling: of a regime it is once that has lasted. */
export const lasted = ({ kind, label }, { numbers, job }) => job.text || numbers[label] || ["alarm", "over", "acknowledged"].includes(kind)

/** What an event is, in words. */
export function sentence(event, nameOf) {
  const who = nameOf(event.label)
  switch (event.kind) {
    case "birth": return `${who} began`
    case "return": return `${who} came back`
    case "death": return `${who} is gone`
    case "closed": return `${who} is over, it seems`
    case "merge": return `${who} became part of ${nameOf(event.into)}`
    case "split": return `${who} split off from ${nameOf(event.into)}`
    case "candidate": return `${who} may be beginning`
    case "alarm": return event.why ? `alarm: ${brief(event.why)}` : `alarm in ${who}`
    case "over": return `alarm over in ${who}`
    case "acknowledged": return event.why ? `acknowledged by ${event.why}` : "acknowledged"
    default: return `${event.kind}: ${who}`
  }
}

/** Between which times a regime began, with probability .95. */
function when(between, clock) {
  if (!between) return ""
  const [low, high] = between.map((t) => clock.near(t, between[1]))
  return low === high ? `began at ${low}` : `began between ${low} and ${high} (95\u00a0%)`
}

/** The list of events: the last ones, the latest on top, repeated ones counted. */
export class Events {
  constructor(list, visit) {
    this.list = list
    this.visit = visit // goes to a time
    this.clear()
  }

  clear() {
    this.all = []
    this.open = null // the event whose reasons are shown
    this.list.replaceChildren()
  }

  /** Take new ones; returns those that are not repeats. */
  take(events) {
    const same = (a, b) => a.kind === b.kind && a.label === b.label && a.into === b.into
    for (const event of events) {
      if (event.n > 1) {
        const old = this.all.findLastIndex((other) => same(other, event) && other.n < event.n)
        if (old >= 0) this.all.splice(old, 1)
      }
      this.all.push(event)
    }
    this.all = this.all.slice(-MOST_EVENTS)
    return events.filter((event) => event.n === 1)
  }

  show(scene, paint) {
    const begun = new Set(this.all.filter(({ kind }) => kind === "birth").map(({ label }) => label))
    const told = this.all.filter((event) => lasted(event, scene) && !(event.kind === "candidate" && begun.has(event.label)))
    const items = told.sort((a, b) => b.t - a.t || b.id - a.id).slice(0, 80).map((event) => {
      const box = element("span", { kind: "swatch" })
      swatch(box, paint?.get(event.label))
      const kind = event.kind === "alarm" ? "what alarm" : "what"
      const what = element("button", { kind, words: sentence(event, scene.nameOf), title: "Go there" })
      if (event.n > 1) what.append(element("span", { kind: "n", words: `  × ${number(event.n)}` }))
      const item = element("li", {}, element("time", { words: scene.clock.near(event.t, scene.history.known[1]) }), box, what)
      const words = [when(event.between, scene.clock), ...(event.kind === "acknowledged" ? "" : event.why ?? "").split("; ")].filter(Boolean).join("\n")
      if (words && event.id === this.open) item.append(element("p", { kind: "words", words }))
      what.ariaExpanded = words ? String(event.id === this.open) : null
      what.onclick = () => {
        this.open = event.id
        this.visit(event.t)
        this.show(scene, paint)
        this.list.querySelector("[aria-expanded=true]")?.focus()
      }
      return item
    })
    this.list.replaceChildren(...items)
  }
}
