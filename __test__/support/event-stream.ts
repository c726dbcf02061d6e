// A client of server-sent events, written from WHATWG HTML ("Interpreting an event stream") and not from the code under test. It must
// never need more bytes than an event has: a frame may come in pieces of any size.

import { afterwards } from './cleanup.js'

export interface ServerSentEvent {
  /** The last id of the stream, its own or an earlier one. */
  id: string
  type: string
  data: any
}

/** Reads a stream from its bytes. */
export class EventStreamParser {
  readonly events: ServerSentEvent[] = []
  readonly comments: string[] = []
  retry: number | undefined
  #decoder = new TextDecoder()
  #line = ''
  #afterReturn = false
  #id = ''
  #type = ''
  #data: string[] = []

  push(bytes: Uint8Array): void {
    for (const char of this.#decoder.decode(bytes, { stream: true })) {
      const endsPair = this.#afterReturn && char === '\n'
      this.#afterReturn = char === '\r'
      if (endsPair) continue
      if (char === '\n' || char === '\r') this.#endLine()
      else this.#line += char
    }
  }

  #endLine(): void {
    const line = this.#line
    this.#line = ''
    if (line === '') {
      this.#dispatch()
      return
    }
    const colon = line.indexOf(':')
    if (colon === 0) {
      this.comments.push(line.slice(1))
      return
    }
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'id' && !value.includes('\0')) this.#id = value
    if (field === 'event') this.#type = value
    if (field === 'data') this.#data.push(value)
    if (field === 'retry' && /^\d+$/.test(value)) this.retry = Number(value)
  }

  #dispatch(): void {
    if (this.#data.length > 0) {
      const data = JSON.parse(this.#data.join('\n'))
      this.events.push({ id: this.#id, type: this.#type || 'message', data })
    }
    this.#type = ''
    this.#data = []
  }
}

/** The events of a whole body. */
export function parsedEvents(bytes: Uint8Array): ServerSentEvent[] {
  const parser = new EventStreamParser()
  parser.push(bytes)
  return parser.events
}

/** How an event of a run is expected in a stream. */
export function asSent(event: { type: string; seq: number }): ServerSentEvent {
  return { id: String(event.seq), type: event.type, data: event }
}

export interface Connection {
  response: Response
  parser: EventStreamParser
  /** Reads until there is an event that fits; `null` at the end of the stream. */
  until(fits: (event: ServerSentEvent) => boolean): Promise<ServerSentEvent | null>
  /** Reads to the end. */
  rest(): Promise<ServerSentEvent[]>
  /** Disconnects. */
  close(): void
}

/** Connects as a browser does, with `Last-Event-ID` when it has one. */
export async function connect(url: string, lastId?: string): Promise<Connection> {
  const controller = new AbortController()
  afterwards(() => controller.abort())
  const headers: Record<string, string> = lastId === undefined ? {} : { 'last-event-id': lastId }
  const response = await fetch(url, { headers, signal: controller.signal })
  const reader = response.body?.getReader()
  const parser = new EventStreamParser()
  /** Whether there was anything more. */
  async function read(): Promise<boolean> {
    const { value, done } = (await reader?.read()) ?? { value: undefined, done: true }
    if (value !== undefined) parser.push(value)
    return !done
  }
  return {
    response,
    parser,
    until: async (fits) => {
      for (let looked = 0; ; ) {
        for (; looked < parser.events.length; looked++) {
          const event = parser.events[looked]
          if (event !== undefined && fits(event)) return event
        }
        if (!(await read())) return null
      }
    },
    rest: async () => {
      while (await read()) {}
      return parser.events
    },
    close: () => controller.abort(),
  }
}
