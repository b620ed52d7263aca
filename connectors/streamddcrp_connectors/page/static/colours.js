// Colours of labels: by id, round the palette; kept for as long as the page is open.

export class Colours {
  constructor() {
    this.given = new Map() // key and label to the place in the palette
    this.palette = { light: ["#888"], dark: ["#888"] }
    this.dark = false
  }

  get list() {
    return this.dark ? this.palette.dark : this.palette.light
  }

  /** Give labels that are seen together a colour each; those that cannot have one stay grey. */
  give(key, labels) {
    const n = this.list.length
    const free = new Set(Array(n).keys())
    const places = new Map()
    for (const label of labels) {
      const place = this.given.get(`${key}/${label}`)
      if (place !== undefined && free.delete(place)) places.set(label, place)
    }
    for (const label of labels) {
      if (places.has(label) || !free.size) continue
      let place = label % n
      while (!free.has(place)) place = (place + 1) % n
      free.delete(place)
      places.set(label, place)
      this.given.set(`${key}/${label}`, place)
    }
    return new Map([...places].map(([label, place]) => [label, this.list[place]]))
  }

  /** The colour of a label by itself. */
  of(label) {
    return label < 0 ? this.grey : this.list[label % this.list.length]
  }

  get grey() {
    return this.dark ? "#6d7783" : "#9a9a9a"
  }
}

/** Make a canvas as sharp as the screen, and return what draws on it, in CSS pixels. */
export function surface(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)]
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w
    canvas.height = h
    canvas.style.height = `${height}px`
  }
  const draw = canvas.getContext("2d")
  draw.setTransform(ratio, 0, 0, ratio, 0, 0)
  draw.clearRect(0, 0, width, height)
  return draw
}

/** The colours of the page itself. */
export function inks() {
  const style = getComputedStyle(document.documentElement)
  const names = ["back", "raised", "line", "grid", "text", "soft", "alarm"]
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]))
}
