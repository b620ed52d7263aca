// The websocket: connects, reads frames, acknowledges them, and connects again for ever.

const LONGEST = 1000 // ms between two tries

/** Read a binary frame: a header, and its columns as Float64Arrays by name. */
export function unpack(buffer) {
  const size = new DataView(buffer).getUint32(0, true)
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)))
  let at = 4 + size
  const columns = {}
  for (const [name, length] of header.columns) {
    columns[name] = new Float64Array(buffer, at, length)
    at += 8 * length
  }
  return { ...header, columns }
}

export class Link {
  /** `received` gets each frame, `changed` each state of the connection: "live", "lost" or "closed". */
  constructor(received, changed) {
    this.received = received
    this.changed = changed
    this.failures = 0
    this.connect()
  }

  connect() {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/socket`)
    socket.binaryType = "arraybuffer"
    socket.onopen = () => {
      this.failures = 0
      this.changed("live")
    }
    socket.onmessage = (event) => {
      const binary = event.data instanceof ArrayBuffer
      this.received(binary ? unpack(event.data) : JSON.parse(event.data))
    }
    socket.onclose = () => this.again()
    this.socket = socket
  }

  async again() {
    this.failures += 1
    this.changed("lost")
    if (this.failures % 5 === 0 && (await refused())) return this.changed("closed")
    setTimeout(() => this.connect(), Math.min(LONGEST, 150 * this.failures))
  }

  send(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message))
  }
}

/** Whether the server is there but does not know this browser any more. */
async function refused() {
  try {
    return (await fetch("/")).status === 403
  } catch {
    return false
  }
}
