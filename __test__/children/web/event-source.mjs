// An EventSource, Node's own, which reads a run to its end and prints each event as a line of JSON. Argument: the URL. It needs
// `--experimental-eventsource`. It reconnects by itself; nothing here does.

import { writeSync } from 'node:fs'

const TYPES = ['stream_start', 'token', 'tool_status', 'stream_end', 'stream_error', 'error']

// Between two connections it holds no process.
const hold = setInterval(() => {}, 60_000)
const source = new EventSource(process.argv[2])
for (const type of TYPES) {
  source.addEventListener(type, ({ data, lastEventId }) => {
    // An `error` without data is the connection's.
    if (data === undefined) return
    const event = JSON.parse(data)
    writeSync(1, `${JSON.stringify({ id: lastEventId, type, data: event })}\n`)
    if (type === 'error' || type === 'stream_error' || event.final) {
      source.close()
      clearInterval(hold)
    }
  })
}
