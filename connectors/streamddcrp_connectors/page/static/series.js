// The picture of a numeric stream: a lane for each column, surprise, and a lane for each regime. Where
// `scene.left` gives the left edge, regimes are in another picture and have no lanes.

import { inks, surface } from "./colours.js"
import { number, ticks } from "./scales.js"

const LANES = 8 // regimes with a lane of their own
const TITLE = 19, GAP = 12, ROW = 18, AXIS = 40, RIGHT = 14
const SIGNS = { birth: "▲", return: "●", split: "◆", merge: "▶", death: "✕", closed: "✕" }
const LEGEND = "▲ began   ● came back   ◆ split off   ▶ became part of another   ✕ gone"

/** Draw a view; returns where things are, for pointers and screen readers. */
export function drawSeries(canvas, scene) {
  const { history, clock, colours, key } = scene
  const ink = inks()
  const labels = scene.left ? [] : history.labels(LANES)
  const paint = scene.paint ?? colours.give(key, labels)
  const other = !scene.left && history.length > 0 && history.columns.label.some((label) => label >= 0 && !paint.has(label))
  const lanes = other ? [...labels, null] : labels
  const width = canvas.parentElement.clientWidth
  const narrow = width < 600
  const draw = canvas.getContext("2d")
  draw.font = font(12)
  const widest = Math.max(34, ...lanes.map((label) => draw.measureText(laneName(scene, label)).width))
  const left = scene.left ?? Math.min(widest + 14, narrow ? 84 : 150)
  const below = scene.left ? 0 : TITLE + GAP + lanes.length * ROW
  const fixed = TITLE + GAP + below + AXIS + 90
  const room = scene.height - fixed - history.shown.length * (TITLE + GAP)
  const tall = Math.max(narrow ? 48 : 54, Math.min(room / Math.max(history.shown.length, 1), 320))
  const height = fixed + history.shown.length * (tall + TITLE + GAP)
  const pen = surface(canvas, width, height)
  pen.font = font(12)
  const [t0, t1] = history.span[1] > history.span[0] ? history.span : [history.span[0] - 1, history.span[0] + 1]
  const plot = { left, right: width - RIGHT, t0, t1, height, top: TITLE }
  plot.x = (t) => left + ((t - t0) / (t1 - t0)) * (plot.right - left)
  plot.t = (x) => t0 + ((x - left) / (plot.right - left)) * (t1 - t0)
  const bottom = height - AXIS
  drawTimes(pen, plot, clock, ink, 4, bottom)
  let top = 0
  const runs = runsOf(history, paint, colours.grey)
  for (const d of history.shown) {
    title(pen, ink, scene.job.features[d], left, top)
    drawColumn(pen, plot, ink, history, runs, d, top + TITLE, tall)
    top += tall + TITLE + GAP
  }
  drawSurprise(pen, plot, ink, history, top, narrow)
  top += 90 + TITLE + GAP
  if (below) title(pen, ink, narrow ? "regimes   ▲ began ● back ✕ gone" : `regimes   ${LEGEND}`, left, top)
  if (below) drawLanes(pen, plot, ink, scene, runs, lanes, paint, top + TITLE)
  if (scene.cursor !== null) line(pen, ink.soft, [[scene.cursor, 4], [scene.cursor, bottom]], 1)
  if (scene.selected) shade(pen, scene.selected, bottom)
  return { ...plot, paint }
}

export const font = (size, bold = "") => `${bold} ${size}px system-ui, "Segoe UI", "DejaVu Sans", sans-serif`

function laneName(scene, label) {
  return label === null ? "others" : scene.names[label] ?? String(scene.numbers[label] ?? `id ${label}`)
}

/** Stretches of neighbouring buckets of one colour. */
function runsOf(history, paint, grey) {
  const runs = []
  const { label } = history.columns
  for (let i = 0; i < history.length; i++) {
    const last = runs.at(-1)
    const colour = paint.get(label[i]) ?? grey
    const own = paint.has(label[i]) ? label[i] : label[i] < 0 ? -1 : null
    if (last && last.label === own && !history.broken(i)) last.stop = i + 1
    else runs.push({ label: own, colour, start: i, stop: i + 1, broken: history.broken(i) })
  }
  return runs
}

function extent(...arrays) {
  let [low, high] = [Infinity, -Infinity]
  for (const array of arrays) {
    for (const x of array) {
      if (x < low) low = x
      if (x > high) high = x
    }
  }
  if (!(low <= high)) return [0, 1]
  const pad = 0.06 * (high - low) || Math.abs(high) * 0.05 || 1
  return [low - pad, high + pad]
}

function scale([low, high], top, tall) {
  return (v) => top + tall - ((v - low) / (high - low)) * tall
}

function drawColumn(pen, plot, ink, history, runs, d, top, tall) {
  const { begin } = history.columns
  const [low, high, mean] = ["low", "high", "mean"].map((what) => history.columns[what + d])
  const range = usual(low, high)
  const y = scale(range, top, tall)
  grid(pen, plot, ink, range, y, tall)
  pen.save()
  pen.beginPath()
  pen.rect(plot.left, top, plot.right - plot.left, tall)
  pen.clip()
  for (const run of runs) {
    pen.fillStyle = run.colour
    if (history.level > 0) {
      pen.globalAlpha = 0.3
      for (let i = run.start; i < run.stop; i++) {
        if (low[i] <= high[i]) {
          const x = plot.x(begin[i])
          pen.fillRect(x, y(high[i]), Math.max(plot.x(history.until(i)) - x, 1), Math.max(y(low[i]) - y(high[i]), 1))
        }
      }
      pen.globalAlpha = 1
    }
    pen.beginPath()
    let down = !run.broken && run.start > 0 && Number.isFinite(mean[run.start - 1])
    if (down) pen.moveTo(middle(plot, history, run.start - 1), y(mean[run.start - 1]))
    for (let i = run.start; i < run.stop; i++) {
      if (!Number.isFinite(mean[i])) down = false
      else if (down) pen.lineTo(middle(plot, history, i), y(mean[i]))
      else {
        pen.moveTo(middle(plot, history, i), y(mean[i]))
        down = true
      }
    }
    pen.strokeStyle = run.colour
    pen.lineWidth = 1.6
    pen.stroke()
  }
  pen.restore()
  beyond(pen, plot, history, runs, (i) => high[i] > range[1], "▲", top + 4)
  beyond(pen, plot, history, runs, (i) => low[i] < range[0], "▼", top + tall - 4)
}

/** Mark where values are outside the picture, none over another. */
function beyond(pen, plot, history, runs, outside, sign, y) {
  let free = -Infinity
  for (const run of runs) {
    pen.fillStyle = run.colour
    for (let i = run.start; i < run.stop; i++) {
      const x = middle(plot, history, i)
      if (!outside(i) || x < free) continue
      mark(pen, sign, x, y, 8)
      free = x + 8
    }
  }
}

/** The range of values, or that of most of them where few others would flatten the rest. */
function usual(low, high) {
  const all = extent(low, high)
  const [lows, highs] = [low, high].map((array) => array.filter(Number.isFinite).sort())
  const few = Math.floor(lows.length / 100)
  const most = few ? extent([lows[few]], [highs[highs.length - 1 - few]]) : all
  return all[1] - all[0] > 2.5 * (most[1] - most[0]) ? most : all
}

function middle(plot, history, i) {
  return history.level > 0 ? plot.x((history.columns.begin[i] + history.until(i)) / 2) : plot.x(history.columns.begin[i])
}

/** Surprise, its threshold, and alarms; what is far above the threshold is cut off and marked. */
function drawSurprise(pen, plot, ink, history, top, narrow) {
  const { score, threshold, alarms } = history.columns
  title(pen, ink, `surprise (nats)   ╌ alarm threshold   ◆ alarm${narrow ? "" : "   ▲ alarm beyond the scale"}`, plot.left, top)
  if (!history.length) return
  top += TITLE
  const range = extent(score, threshold)
  const [lowest, limit] = [extent(score)[0], Math.max(...[...threshold].filter(Number.isFinite))]
  if (Number.isFinite(limit)) range[1] = Math.min(range[1], limit + 1.2 * (limit - lowest))
  const y = scale(range, top, 90)
  grid(pen, plot, ink, range, y, 90)
  pen.save()
  pen.beginPath()
  pen.rect(plot.left, top, plot.right - plot.left, 90)
  pen.clip()
  path(pen, plot, history, score, y, ink.soft, 1.2)
  pen.setLineDash([5, 4])
  path(pen, plot, history, threshold, y, ink.alarm, 1.4)
  pen.restore()
  pen.fillStyle = ink.alarm
  for (let i = 0; i < history.length; i++) {
    if (alarms[i] > 0) mark(pen, score[i] > range[1] ? "▲" : "◆", middle(plot, history, i), Math.max(y(score[i]), top + 5), 9)
  }
}

function path(pen, plot, history, values, y, colour, width) {
  pen.beginPath()
  let down = false
  for (let i = 0; i < history.length; i++) {
    if (!Number.isFinite(values[i]) || history.broken(i)) down = false
    if (!Number.isFinite(values[i])) continue
    const x = middle(plot, history, i)
    if (down) pen.lineTo(x, y(values[i]))
    else pen.moveTo(x, y(values[i]))
    down = true
  }
  pen.strokeStyle = colour
  pen.lineWidth = width
  pen.stroke()
}

function drawLanes(pen, plot, ink, scene, runs, lanes, paint, top) {
  const { history } = scene
  pen.font = font(12)
  const place = new Map(lanes.map((label, i) => [label, top + ROW * i + ROW / 2]))
  for (const [label, y] of place) {
    line(pen, ink.grid, [[plot.left, y], [plot.right, y]], 1)
    text(pen, ink.text, fitted(pen, laneName(scene, label), plot.left - 12), plot.left - 8, y + 4, "right")
  }
  for (const run of runs) {
    const y = place.get(run.label)
    if (y === undefined) continue
    pen.fillStyle = run.colour
    const x = Math.max(plot.x(history.columns.begin[run.start]), plot.left)
    const end = Math.min(plot.x(history.until(run.stop - 1)), plot.right)
    pen.fillRect(x, y - 5, Math.max(end - x, 1.5), 10)
  }
  for (const event of scene.events) {
    const y = place.get(paint.has(event.label) ? event.label : undefined)
    const x = plot.x(event.t)
    if (y === undefined || !(event.kind in SIGNS) || x < plot.left || x > plot.right) continue
    pen.lineWidth = 3
    pen.strokeStyle = ink.back
    pen.font = font(11)
    pen.textAlign = "center"
    pen.strokeText(SIGNS[event.kind], x, y + 4)
    pen.fillStyle = ink.text
    pen.fillText(SIGNS[event.kind], x, y + 4)
    pen.textAlign = "left"
  }
}

/** Lines across a lane and numbers beside it. */
function grid(pen, plot, ink, range, y, tall) {
  pen.font = font(11)
  const most = Math.max(2, tall / 28)
  const marks = ticks(...range, most)
  for (const v of marks.length > 1 ? marks : ticks(...range, 2 * most)) {
    line(pen, ink.grid, [[plot.left, y(v)], [plot.right, y(v)]], 1)
    text(pen, ink.soft, number(v).replace("-", "−"), plot.left - 8, y(v) + 4, "right")
  }
}

/** The axis of times: lines across all lanes and, where it is written, ticks and the date. */
export function drawTimes(pen, plot, clock, ink, top, bottom, written = true) {
  pen.font = font(11)
  const marks = clock.ticks(plot.t0, plot.t1, Math.max(2, (plot.right - plot.left) / 96))
  line(pen, ink.line, [[plot.left, bottom], [plot.right, bottom]], 1)
  let free = -Infinity
  for (const [t, words] of marks) {
    const x = plot.x(t)
    const half = pen.measureText(words).width / 2
    line(pen, ink.grid, [[x, top], [x, bottom + 4]], 1)
    if (!written || x - half < free || x + half > plot.right + RIGHT) continue
    text(pen, ink.soft, words, x, bottom + 16, "center")
    free = x + half + 8
  }
  if (!written) return
  if (clock.stamped) text(pen, ink.soft, clock.full(plot.t0, true), plot.left, bottom + 32, "left")
  text(pen, ink.soft, clock.title, plot.right, bottom + 32, "right")
}

function title(pen, ink, words, left, top) {
  pen.font = font(12.5)
  text(pen, ink.soft, words, left, top + 13, "left")
}

export function text(pen, colour, words, x, y, align) {
  pen.fillStyle = colour
  pen.textAlign = align
  pen.fillText(words, x, y)
  pen.textAlign = "left"
}

export function fitted(pen, words, width) {
  if (pen.measureText(words).width <= width) return words
  let n = words.length
  while (n > 1 && pen.measureText(`${words.slice(0, n)}…`).width > width) n -= 1
  return `${words.slice(0, n)}…`
}

function mark(pen, sign, x, y, size) {
  pen.font = font(size)
  pen.textAlign = "center"
  pen.fillText(sign, x, y + size / 3)
  pen.textAlign = "left"
}

function line(pen, colour, points, width) {
  pen.strokeStyle = colour
  pen.lineWidth = width
  pen.beginPath()
  for (const [x, y] of points) pen.lineTo(Math.round(x) + 0.5, Math.round(y) + 0.5)
  pen.stroke()
}

function shade(pen, [a, b], bottom) {
  pen.fillStyle = "#2f8fe033"
  pen.fillRect(Math.min(a, b), 4, Math.abs(b - a), bottom - 4)
}
