// The menu of silences: those under way and to come, and a form that sets one.

import { dropdown, element } from "./panels.js"

const HOURS = [[1, "for 1 hour"], [4, "for 4 hours"], [12, "for 12 hours"], [24, "for 1 day"], [168, "for 1 week"]]

export class Silences {
  /** `act` sends what is asked for; `key` returns what is silenced unless something else is written. */
  constructor(box, act, key) {
    this.box = box
    this.act = act
    this.key = key
    this.title = box.querySelector("summary")
    dropdown(box)
    const field = (label, more = {}) => element("input", { ariaLabel: label, title: label, placeholder: label, maxLength: 200, ...more })
    this.pattern = field("Key, or a pattern such as pump*")
    this.when = element("select", { ariaLabel: "How long", onchange: () => this.choose() })
    this.when.append(...HOURS.map(([n, words]) => new Option(words, n)), new Option("from, until (UTC)", "span"), new Option("every week (UTC)", "weekly"))
    this.from = field("From (UTC)", { type: "datetime-local" })
    this.until = field("Until (UTC)", { type: "datetime-local" })
    this.weekly = field("Sat 22:00 - Sun 06:00")
    this.reason = field("Reason", { maxLength: 60 })
    this.who = field("Your name", { maxLength: 60 })
    this.wrong = element("p", { kind: "wrong" })
    this.wrong.setAttribute("role", "alert")
    this.list = element("ul")
    const set = element("button", { words: "Silence" })
    this.form = element("form", { onsubmit: (event) => this.set(event) }, this.pattern, this.when, this.from, this.until, this.weekly, this.reason, this.who, set)
    box.querySelector("div").append(this.form, this.wrong, this.list)
    box.ontoggle = () => box.open && this.begin()
    this.choose()
  }

  begin() {
    this.wrong.textContent = ""
    this.pattern.hidden = !this.keyed
    this.pattern.value = this.key() || "*"
    this.who.value = localStorage.getItem("who") ?? ""
    this.reason.focus()
  }

  choose() {
    this.from.hidden = this.until.hidden = this.when.value !== "span"
    this.weekly.hidden = this.when.value !== "weekly"
  }

  set(event) {
    event.preventDefault()
    localStorage.setItem("who", this.who.value)
    const times = { span: { from: this.from.value, until: this.until.value }, weekly: { weekly: this.weekly.value || "?" } }
    const time = times[this.when.value] ?? { hours: Number(this.when.value) }
    this.act({ do: "silence", key: this.keyed ? this.pattern.value : "*", reason: this.reason.value, by: this.who.value, ...time })
  }

  /** What the server says to it: nothing, or what is wrong. */
  answer({ wrong }) {
    this.wrong.textContent = wrong
    if (wrong) return
    this.reason.value = ""
  }

  /** List those under way and to come. */
  take({ silences }, keyed) {
    this.keyed = keyed
    this.box.hidden = false
    this.title.textContent = silences.length ? `Silences: ${silences.length}` : "Silence"
    this.list.replaceChildren(...silences.map((silence) => {
      const over = element("button", { words: "End", onclick: () => this.act({ do: "hear", place: silence.place, by: localStorage.getItem("who") ?? "" }) })
      over.ariaLabel = `End the silence of ${silence.key}`
      return element("li", {}, element("span", { words: describe(silence, keyed) }), over)
    }))
  }
}

const short = (stamp) => stamp.replace("T", " ").replace(/(:00)?([+]00:00|Z)?$/, "")

function describe({ key, from, until, weekly, reason, by }, keyed) {
  const when = weekly ? `${weekly}${until ? `, until ${short(until)}` : ""}` : [from && `from ${short(from)}`, until && `until ${short(until)}`].filter(Boolean).join(" ")
  const why = [reason, by].filter(Boolean).join(", ")
  return `${keyed ? `${key}: ` : ""}${when}${why ? ` (${why})` : ""}`
}
