// The picture of stories: a stream graph, each band as thick as texts come.

import { inks, surface } from "./colours.js"
import { drawTimes, fitted, font, text } from "./series.js"
import { lasting, number, ticks } from "./scales.js"

const BINS = 60, BELOW = 12, LEFT = 54, RIGHT = 14, TOP = 26

/** Draw the bands of a frame of volumes; returns where times are. */
export function drawStories(canvas, scene) {
  const { graph, clock, colours, key, history } = scene
  const ink = inks()
  const width = canvas.parentElement.clientWidth
  const height = Math.max(260, Math.min(scene.height, 900))
  const pen = surface(canvas, width, height)
  const [t0, t1] = history.span[1] > history.span[0] ? history.span : [history.span[0] - 1, history.span[0] + 1]
  const plot = { left: LEFT, right: width - RIGHT, t0, t1, height, top: TOP }
  plot.x = (t) => LEFT + ((t - t0) / (t1 - t0)) * (plot.right - LEFT)
  plot.t = (x) => t0 + ((x - LEFT) / (plot.right - LEFT)) * (t1 - t0)
  const bottom = height - BELOW
  drawTimes(pen, plot, clock, ink, TOP, bottom, false)
  const step = (t1 - t0) / BINS
  pen.font = font(12.5)
  const unit = scene.job.text ? "texts" : "rows"
  const what = scene.job.text ? "stories" : "regimes"
  const said = `${unit} in ${clock.stamped ? lasting(step) : number(step)}: the largest ${what}`
  const more = others(graph, what)
  const room = plot.right - LEFT - pen.measureText(said).width - 20
  text(pen, ink.soft, said, LEFT, 15, "left")
  if (pen.measureText(more).width < room) text(pen, ink.soft, more, plot.right, 15, "right")
  if (!graph || !graph.columns.begin.length) return { ...plot, paint: new Map() }
  const paint = colours.give(key, [...graph.labels].sort((a, b) => a - b))
  const order = [...graph.labels.keys()].sort((a, b) => graph.labels[a] - graph.labels[b])
  const bands = order.map((i) => ({
    label: graph.labels[i], colour: paint.get(graph.labels[i]) ?? colours.grey,
    sizes: smooth(rebinned(graph, graph.columns[`n${i}`], t0, step)),
  }))
  const totals = Array.from({ length: BINS }, (_, j) => bands.reduce((sum, band) => sum + band.sizes[j], 0))
  const most = Math.max(...totals, 1e-9)
  const y = (v) => bottom - (v / most) * (bottom - TOP)
  axis(pen, plot, ink, most, y)
  const base = totals.map(() => 0)
  for (const band of bands) {
    const low = [...base]
    band.sizes.forEach((n, j) => (base[j] += n))
    fill(pen, plot, y, low, base, step, band.colour)
    band.low = low
    band.high = [...base]
  }
  nameBands(pen, plot, y, bands, step, ink, scene)
  return { ...plot, paint }
}

/** Say how many texts are in bands too small to draw. */
function others(graph, what) {
  if (!graph) return ""
  const sum = (array) => array.reduce((a, b) => a + b, 0)
  const rest = sum(graph.columns.rest)
  const all = rest + graph.labels.reduce((n, _, i) => n + sum(graph.columns[`n${i}`]), 0)
  return all && rest / all > 0.005 ? `${Math.round((100 * rest) / all)} % are in smaller ${what}, not drawn` : ""
}

/** Texts of equal stretches of time, of chunks whose texts are spread evenly over theirs. */
function rebinned(graph, counts, t0, step) {
  const { begin, end } = graph.columns
  const out = new Float64Array(BINS)
  for (let i = 0; i < begin.length; i++) {
    const last = i + 1 < begin.length ? begin[i + 1] : end[i]
    const [a, b] = [(begin[i] - t0) / step, (Math.max(last, end[i]) - t0) / step]
    const long = Math.max(b - a, 1e-9)
    for (let j = Math.max(0, Math.floor(a)); j <= Math.min(BINS - 1, Math.floor(b)); j++) {
      const part = long > 1e-9 ? (Math.min(b, j + 1) - Math.max(a, j)) / long : 1
      out[j] += counts[i] * Math.max(part, 0)
    }
  }
  return out
}

function smooth(sizes) {
  return sizes.map((n, j) => (sizes[Math.max(j - 1, 0)] + 2 * n + sizes[Math.min(j + 1, BINS - 1)]) / 4)
}

function fill(pen, plot, y, low, high, step, colour) {
  const x = (j) => plot.x(plot.t0 + (j + 0.5) * step)
  pen.beginPath()
  edge(pen, x, (j) => y(high[j]), 0, BINS - 1, 1)
  edge(pen, x, (j) => y(low[j]), BINS - 1, 0, -1)
  pen.closePath()
  pen.fillStyle = colour
  pen.fill()
}

/** A soft line through points, on from where the pen is. */
function edge(pen, x, y, from, to, step) {
  pen.lineTo(x(from), y(from))
  for (let j = from; j !== to; j += step) {
    const middle = (x(j) + x(j + step)) / 2
    pen.bezierCurveTo(middle, y(j), middle, y(j + step), x(j + step), y(j + step))
  }
}

function axis(pen, plot, ink, most, y) {
  pen.font = font(11)
  for (const v of ticks(0, most, 5)) text(pen, ink.soft, number(v), plot.left - 8, y(v) + 4, "right")
}

/** Write the words of bands where they are thickest, the largest first, none over another. */
function nameBands(pen, plot, y, bands, step, ink, scene) {
  const taken = []
  const size = (band) => band.sizes.reduce((a, b) => a + b, 0)
  pen.font = font(12.5, "600")
  for (const band of [...bands].sort((a, b) => size(b) - size(a))) {
    const words = fitted(pen, scene.nameOf(band.label), 210)
    const wide = pen.measureText(words).width
    const best = [...band.sizes.keys()].sort((a, b) => band.sizes[b] - band.sizes[a])
    for (const j of best.slice(0, 12)) {
      const tall = y(band.low[j]) - y(band.high[j])
      const cx = Math.min(Math.max(plot.x(plot.t0 + (j + 0.5) * step), plot.left + wide / 2 + 6), plot.right - wide / 2 - 6)
      const cy = (y(band.low[j]) + y(band.high[j])) / 2
      const box = [cx - wide / 2 - 6, cy - 10, cx + wide / 2 + 6, cy + 10]
      if (tall < 17 || taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue
      taken.push(box)
      pen.fillStyle = ink.back
      pen.globalAlpha = 0.82
      pen.fillRect(box[0], box[1], box[2] - box[0], 20)
      pen.globalAlpha = 1
      text(pen, ink.text, words, cx, cy + 4.5, "center")
      break
    }
  }
}
