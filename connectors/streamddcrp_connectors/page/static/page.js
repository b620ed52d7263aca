// The page: what is shown, what the server says, what the keys and buttons do.

import { Colours } from "./colours.js"
import { Chooser } from "./columns.js"
import { calibrating, Fleet } from "./fleet.js"
import { History } from "./history.js"
import { Link } from "./link.js"
import { Events, Regimes, inWords, lasted, sentence, swatch } from "./panels.js"
import { Clock, lasting, number, whole } from "./scales.js"
import { drawSeries } from "./series.js"
import { Silences } from "./silences.js"
import { drawStories } from "./stories.js"

const $ = (id) => document.getElementById(id)
const QUIET = 2500 // ms without rows after which the rate is none
const COLUMNS = 64 // that the server keeps
const LANES = 8 // columns at once
const LANE = 85, BESIDE = 354 // pixels of one, and of what is below them

export const latencies = [] // ms from learned to drawn, of the last pictures
export const shown = () => scene // for those who look at the page from outside
const colours = new Colours()
const history = new History()
const scene = { history, colours, job: null, names: {}, stories: [], events: [], cursor: null, selected: null, key: "", nameOf, numbers: {} }
const view = { key: null, span: undefined, end: null, columns: null, id: 0 } // span undefined: not chosen yet
const events = new Events($("events"), visit)
const regimes = new Regimes($("regimes"), (label, name, verdict) => link.send({ do: "name", key: view.key, label, name, verdict }), visit)
const fleet = new Fleet($("fleet"), (key) => `#${address({ ...view, key, end: null })}`)
const silences = new Silences($("silences"), (asked) => link.send(asked), () => view.key)
const chooser = new Chooser($("columns"), (columns) => go({ columns }))
let fitting = LANES
let tables = null
let plot = null
let learned = 0
let due = false
let heard = 0

function nameOf(label) {
  if (scene.names[label]) return scene.names[label]
  const words = scene.stories.find((story) => story.label === label)?.words
  if (words) return words.split(" ").slice(0, 3).join(" ")
  if (label < 0) return scene.job?.text ? "no story" : "warm-up"
  if (scene.job?.text) return `story ${label}`
  return scene.numbers[label] ? `regime ${scene.numbers[label]}` : `id ${label}` // numbers have no gaps
}

// -- the address of a view ------------------------------------------------------------------------

function address({ key, span, end, columns }) {
  const parts = new URLSearchParams()
  if (key !== null && key !== "") parts.set("key", key)
  if (span !== undefined) parts.set("span", span ?? "all")
  if (end !== null) parts.set("end", end)
  if (columns) parts.set("columns", columns.join("-"))
  return parts.toString()
}

function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1))
  const figure = (name) => (Number.isFinite(parseFloat(parts.get(name))) ? parseFloat(parts.get(name)) : undefined)
  view.key = parts.get("key") ?? (scene.job?.key ? null : "")
  view.span = parts.get("span") === "all" ? null : figure("span")
  view.end = figure("end") ?? null
  view.columns = parts.get("columns")?.split("-").map(Number).filter(Number.isInteger) ?? null
}

function go(change) {
  const before = view.key
  Object.assign(view, change)
  const hash = `#${address(view)}`
  if (view.key !== before) window.history.pushState(null, "", hash)
  else window.history.replaceState(null, "", hash)
  show()
}

/** Ask for what is to be seen. */
function show() {
  if (!scene.job) return
  if ((view.key ?? "") !== scene.key || document.body.dataset.view === "waiting") clear()
  const whole = view.key === null
  document.body.dataset.view = whole ? "fleet" : "stream"
  $("up").hidden = whole || !scene.job.key
  raise(false)
  $("name").textContent = whole ? `${scene.job.name}, by ${scene.job.key}` : scene.job.key ? `${view.key}` : scene.job.name
  document.title = `${$("name").textContent} – streamddcrp`
  $("pause").textContent = view.end === null ? "Pause" : "Resume"
  $("pause").ariaPressed = String(view.end !== null)
  $("live").disabled = view.end === null
  view.id += 1
  const most = Math.max($("charts").clientWidth, 300)
  fitting = lanes()
  link.send({
    do: "show", id: view.id, key: view.key ?? "", fleet: whole, span: view.span ?? null, end: view.end, most, lanes: fitting, columns: view.columns,
  })
}

/** Height of the picture that is in sight. */
const room = () => window.innerHeight - Math.max($("charts").getBoundingClientRect().top + window.scrollY, 60) - 14

/** How many columns can be in sight together with the regimes and the times; on a phone one scrolls. */
function lanes() {
  const scrolls = $("charts").clientWidth < 600 || scene.job.text || scene.job.epochs
  return scrolls ? LANES : Math.min(Math.max(Math.floor((room() - BESIDE) / LANE), 2), LANES)
}

function clear() {
  scene.key = view.key ?? ""
  history.clear()
  events.clear()
  regimes.clear()
  Object.assign(scene, { names: {}, numbers: {}, stories: [], events: [], graph: null })
  tables = null
}

// -- what the server says -------------------------------------------------------------------------

const onFrame = {
  hello(frame) {
    heard = Date.now()
    colours.palette = frame.palette
    if (!frame.job) return notice("Waiting for the first rows.")
    notice("")
    scene.job = frame.job
    scene.clock = new Clock(frame.job.time)
    const what = frame.job.text ? "story" : "regime"
    $("what").textContent = what
    $("how-many").textContent = frame.job.text ? "texts" : "rows"
    $("regimes-title").textContent = frame.job.text ? "Stories" : "Regimes"
    $("bands").hidden = !(frame.job.text || frame.job.epochs)
    readAddress()
    fleet.clear(frame.job.calibrating)
    document.body.dataset.view = "waiting"
    show()
  },
  unknown(frame) {
    notice(`There is no ${scene.job.key} ${frame.key} yet.`)
  },
  view(frame) {
    link.send({ do: "got" })
    if (frame.id !== view.id) return
    notice("")
    history.take(frame)
    learned = frame.learned
    chooseSpan()
    draw()
  },
  graph(frame) {
    link.send({ do: "got" })
    draw(String(scene.graph?.labels) !== String(frame.labels))
    scene.graph = frame
  },
  tables(frame) {
    if (frame.key !== scene.key) return
    heard = Date.now()
    tables = frame
    scene.names = frame.names
    scene.numbers = frame.numbers
    scene.stories = frame.stories
    $("counts").textContent = inWords(frame.counts)
    const first = !scene.events.length
    const fresh = events.take(frame.events)
    scene.events = events.all
    if (!first) speak(fresh)
    counts(frame)
    draw(true)
  },
  silences(frame) {
    silences.take(frame, Boolean(scene.job.key))
  },
  answer(frame) {
    silences.answer(frame)
  },
  cards(frame) {
    link.send({ do: "got" })
    heard = Date.now()
    fleet.take(frame, colours, scene.clock)
    counts(frame)
    const raised = [...fleet.cards.values()].filter((card) => card.facts.raised).length
    raise(raised, "Acknowledge all")
    notice(`${whole(fleet.cards.size)} streams, ${raised ? `${whole(raised)} with an alarm that no one has acknowledged` : "no alarm"}.`)
    note(frame.learned)
  },
}

function counts(frame) {
  $("rows").textContent = whole(frame.rows) + (frame.dropped ? ` (${whole(frame.dropped)} not shown)` : "")
  $("rate").textContent = frame.ended ? "–" : number(Math.round(frame.rate * 10) / 10)
  setLink(frame.ended ? "ended" : "live")
}

function speak(fresh) {
  const said = fresh.filter((event) => ["alarm", "birth", "return"].includes(event.kind) && lasted(event, scene)).slice(-3)
  if (said.length) $("spoken").textContent = said.map((event) => sentence(event, nameOf)).join(". ")
}

function notice(words) {
  if ($("notice").textContent !== words) $("notice").textContent = words
}

function setLink(state) {
  const words = { live: "live", lost: "connecting again", closed: "not allowed", ended: scene.job?.live ? "ended" : "recorded" }[state]
  if ($("link").textContent !== words) $("link").textContent = words
  $("link").className = `pill ${state === "live" ? "live" : state === "ended" ? "" : "lost"}`
}

function linkChanged(state) {
  setLink(state)
  if (state === "closed") notice("The key of this page is no longer valid: open the address that the run printed.")
}

// -- drawing ---------------------------------------------------------------------------------------

let panelsDue = false

function draw(panels = false) {
  panelsDue ||= panels
  if (due) return
  due = true
  requestAnimationFrame(() => {
    due = false
    if (document.body.dataset.view !== "stream" || !scene.clock || view.key === null) return
    const graph = scene.job.text || scene.job.epochs
    scene.height = graph ? Math.max(room() - 180 - 110 * Math.min(history.shown.length, 3), 260) : Math.max(room(), 420)
    const bands = graph ? drawStories($("bands"), scene) : null
    if (graph) scene.height = room() - scene.height
    const chosen = view.columns ?? history.shown // an answer to an older choice may be on its way
    chooser.show(scene.job.features.slice(0, scene.job.text ? 0 : COLUMNS), chosen, view.columns !== null)
    plot = drawSeries($("chart"), { ...scene, left: bands?.left, paint: bands?.paint })
    facts()
    if (panelsDue && tables && history.length) {
      const { paint } = plot
      regimes.show(tables, scene, paint)
      events.show(scene, paint)
      panelsDue = false
    }
    note(learned)
  })
}

/** Keep how long it took from learned to drawn. */
function note(when) {
  if (!when || when === note.last) return
  note.last = when
  latencies.push(Date.now() - 1000 * when)
  if (latencies.length > 2000) latencies.splice(0, 1000)
  $("link").title = `drawn ${Math.round(latencies.at(-1))} ms after it was learned`
}

/** Offer to acknowledge, and to say who does. */
function raise(raised, words = "") {
  $("acknowledge").hidden = $("who").hidden = !raised
  if (raised) $("acknowledge").textContent = words
}

function facts() {
  const { now } = history
  if (!now) return
  const name = nameOf(now.label)
  if ($("now").textContent !== name) $("now").textContent = $("now").title = name
  swatch($("now-swatch"), plot.paint.get(now.label))
  regimes.mark(now.label)
  $("surprise").textContent = `${number(now.score)} / ${now.threshold === null ? calibrating(now, scene.job.calibrating) : number(now.threshold)}`
  $("surprise").className = now.alarm ? "alarm" : ""
  $("alarms").textContent = whole(now.alarms)
  $("alarms").title = now.silent === null ? "" : `silent (${now.silent})`
  $("alarms").textContent += now.silent === null ? "" : ", silent"
  raise(now.raised, "Acknowledge alarm")
  const [begin, end] = history.span
  for (const kind of ["csv", "arrow"]) {
    $(kind).href = `/shown?${new URLSearchParams({ key: view.key, begin, end, as: kind })}`
    $(kind).download = `${scene.job.name}-shown.${kind}`
  }
  $("chart").ariaLabel = `From ${scene.clock.full(begin)} to ${scene.clock.full(end)}. Now ${name}, surprise ${number(now.score)}` +
    (now.threshold === null ? "." : `, alarm threshold ${number(now.threshold)}.`)
}

/** Offer spans that fit what is known; at first choose one with some hundred buckets. */
function chooseSpan() {
  const choices = scene.clock.spans(history.known)
  if (view.span !== undefined && view.span !== null && !choices.some(([n]) => n === view.span)) {
    choices.unshift([view.span, scene.clock.stamped ? lasting(view.span) : number(view.span)])
  }
  const select = $("span")
  const wanted = choices.map(([n, words]) => `${n}/${words}`).join()
  if (select.dataset.choices !== wanted && document.activeElement !== select) {
    select.dataset.choices = wanted
    select.replaceChildren(...choices.map(([n, words]) => new Option(words, n ?? "all")))
  }
  if (document.activeElement !== select) select.value = view.span ?? "all"
}

// -- moving about ----------------------------------------------------------------------------------

const length = () => history.span[1] - history.span[0]

function pause() {
  if (view.end !== null) return go({ end: null })
  go({ end: history.span[1], span: view.span ?? null })
}

function move(part) {
  const [first, last] = history.known
  const span = view.span ?? length()
  const end = Math.max((view.end ?? last) + part * span, first + Math.min(span, last - first))
  go(end >= last ? { end: null } : { end, span })
}

function zoom(factor, at = null) {
  const [begin, end] = history.span
  const span = Math.min(Math.max(length() * factor, (history.known[1] - history.known[0]) * 1e-6), history.known[1] - history.known[0])
  if (view.end === null && at === null) return go({ span })
  const middle = at ?? end
  const share = (middle - begin) / (end - begin)
  const to = Math.min(middle + (1 - share) * span, history.known[1])
  go({ span, end: to >= history.known[1] ? null : to })
}

/** Show a moment with a quarter of the picture behind it, and so little that single rows are seen. */
function visit(t) {
  const [first, last] = history.known
  const span = Math.min(view.span ?? length(), Math.max((last - first) / 8, 1e-9))
  go({ span, end: Math.min(t + span / 4, last) })
}

function theme(dark) {
  colours.dark = dark
  document.documentElement.dataset.theme = dark ? "dark" : "light"
  fleet.redraw(colours)
  draw(true)
}

const keys = {
  " ": pause,
  l: () => go({ end: null }),
  t: toggle,
  ArrowLeft: () => move(-0.5),
  ArrowRight: () => move(0.5),
  "+": () => zoom(0.5),
  "-": () => zoom(2),
  Escape: () => scene.job?.key && go({ key: null, end: null }),
}

function toggle() {
  localStorage.setItem("theme", colours.dark ? "light" : "dark")
  theme(!colours.dark)
}

addEventListener("keydown", (event) => {
  const field = event.target.closest("input, select, .box")
  const press = event.key === " " && event.target.closest("button, a, summary")
  if (field || press || event.ctrlKey || event.metaKey || event.altKey) return
  const act = keys[event.key] ?? keys[event.key.toLowerCase()]
  if (!act || (view.key === null && !["t", "T"].includes(event.key))) return
  event.preventDefault()
  act()
})

$("pause").onclick = pause
$("live").onclick = keys.l
$("back").onclick = keys.ArrowLeft
$("forward").onclick = keys.ArrowRight
$("theme").onclick = toggle
$("who").value = localStorage.getItem("who") ?? ""
$("who").onchange = () => localStorage.setItem("who", $("who").value)
$("acknowledge").onclick = () => link.send({ do: "acknowledge", key: view.key ?? "", all: view.key === null, by: $("who").value })
$("span").onchange = () => {
  go({ span: $("span").value === "all" ? null : parseFloat($("span").value) })
  $("span").blur()
}
$("up").onclick = (event) => {
  event.preventDefault()
  keys.Escape()
}
$("find").oninput = () => {
  fleet.filter = $("find").value.toLowerCase()
  fleet.arrange()
}
addEventListener("hashchange", () => {
  readAddress()
  show()
})
new ResizeObserver(() => draw()).observe($("charts"))
addEventListener("resize", () => scene.job && view.key !== null && lanes() !== fitting && show())

// Drag over the picture to look at a part of it; point to read values.
let drag = null
$("chart").onpointerdown = (event) => {
  if (event.pointerType !== "touch") drag = event.offsetX
}
$("chart").onpointermove = (event) => {
  if (!plot || !history.length) return
  scene.cursor = Math.min(Math.max(event.offsetX, plot.left), plot.right)
  scene.selected = drag !== null && Math.abs(event.offsetX - drag) > 4 ? [Math.max(drag, plot.left), scene.cursor] : null
  readout(event.offsetX, event.offsetY)
  draw()
}
$("chart").onpointerleave = () => {
  Object.assign(scene, { cursor: null, selected: null })
  drag = null
  $("readout").hidden = true
  draw()
}
$("chart").onpointerup = () => {
  if (scene.selected) {
    const [a, b] = scene.selected.map(plot.t).sort((x, y) => x - y)
    go({ span: b - a, end: b })
  }
  drag = null
  scene.selected = null
}
$("chart").onwheel = (event) => {
  if (!event.ctrlKey || !plot) return
  event.preventDefault()
  zoom(event.deltaY > 0 ? 1.25 : 0.8, plot.t(event.offsetX))
}

function readout(x, y) {
  const i = history.at(plot.t(scene.cursor))
  const box = $("readout")
  box.hidden = i < 0
  if (i < 0) return
  const at = (name) => history.columns[name][i]
  const lines = [scene.clock.full(at("begin")), nameOf(at("label")), `surprise ${number(at("score"))} (threshold ${number(at("threshold"))})`]
  for (const d of history.shown) {
    const range = history.level > 0 ? ` (${number(at(`low${d}`))} to ${number(at(`high${d}`))})` : ""
    lines.push(`${scene.job.features[d]} ${number(at(`mean${d}`))}${range}`)
  }
  box.textContent = lines.join("\n")
  const right = x < $("charts").clientWidth / 2
  box.style.left = right ? `${x + 16}px` : ""
  box.style.right = right ? "" : `${$("charts").clientWidth - x + 16}px`
  box.style.top = `${Math.max(y - 30, 0)}px`
}

setInterval(() => {
  if (Date.now() - heard > QUIET && $("rate").textContent !== "–") $("rate").textContent = "0"
}, 1000)

const wish = matchMedia("(prefers-color-scheme: dark)")
const chosen = () => (localStorage.getItem("theme") ?? (wish.matches ? "dark" : "light")) === "dark"
wish.onchange = () => theme(chosen())
theme(chosen())
const link = new Link((frame) => onFrame[frame.type]?.(frame), linkChanged)
