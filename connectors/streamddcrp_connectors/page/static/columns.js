// The menu of columns: those that are drawn, chosen by the server or by hand.

import { dropdown, element } from "./panels.js"

const MOST = 8 // columns at once

export class Chooser {
  constructor(box, choose) {
    this.box = box
    this.title = box.querySelector("summary")
    this.menu = box.querySelector("div")
    this.choose = choose
    this.boxes = []
    dropdown(box)
  }

  /** List all columns; `shown` are drawn, and `own` says that somebody chose them. */
  show(features, shown, own) {
    this.box.hidden = features.length < 2 // a text has one
    if (this.box.hidden) return
    if (this.boxes.length !== features.length) this.make(features)
    const words = `Columns: ${shown.length} of ${features.length}`
    if (this.title.textContent !== words) this.title.textContent = words
    this.auto.disabled = !own
    this.boxes.forEach((tick, d) => {
      tick.checked = shown.includes(d)
      tick.disabled = !tick.checked && own && shown.length >= MOST
    })
  }

  make(features) {
    this.boxes = features.map(() => element("input", { type: "checkbox", onchange: () => this.changed() }))
    this.auto = element("button", { words: "Those of reasons, and that tell regimes apart", onclick: () => this.choose(null) })
    this.menu.replaceChildren(this.auto, ...features.map((name, d) => element("label", {}, this.boxes[d], name)))
  }

  changed() {
    const chosen = this.boxes.flatMap((tick, d) => (tick.checked ? [d] : [])).slice(0, MOST)
    this.choose(chosen.length ? chosen : null)
  }
}
