// The items of a reader as a stream, as a Response, and into a response of Node.js: each reads an item only when its client took the last.
// It must never hold more than one item for a client that does not read.

import type { NodeResponse } from '../../web.d.ts'
import type { SourceReader } from './source-reader.ts'

/** A stream of what `convert` makes of each item. */
function streamOf<Item extends {}, Out>(
  // biome-ignore lint/suspicious/noExplicitAny: its events do not matter here.
  reader: SourceReader<any, Item>,
  convert: (item: Item) => Out,
): ReadableStream<Out> {
  return new ReadableStream<Out>(
    {
      async pull(controller) {
        const item = await reader.next()
        if (item === undefined) controller.close()
        else controller.enqueue(convert(item))
      },
      cancel: () => reader.leave(),
    },
    // No item is fetched in advance.
    { highWaterMark: 0 },
  )
}

/** Texts as bytes. */
function textBytes(): (text: string) => Uint8Array {
  const encoder = new TextEncoder()
  return (text) => encoder.encode(text)
}

/** A response with the texts of a reader. */
function responseOf(
  // biome-ignore lint/suspicious/noExplicitAny: its events do not matter here.
  read: () => SourceReader<any, string>,
  headers: ReadonlyMap<string, string>,
  status: number,
): Response {
  // Before the source is touched: a status or header that a Response refuses leaves the run alone.
  const init = { status, headers: new Headers([...headers]) }
  new Response(null, init)
  return new Response(streamOf(read(), textBytes()), init)
}

/** Writes the texts of a reader. True after the last one, false where the client went before. */
async function writeAll(
  // biome-ignore lint/suspicious/noExplicitAny: its events do not matter here.
  read: () => SourceReader<any, string>,
  response: NodeResponse,
  headers: ReadonlyMap<string, string>,
  status: number,
): Promise<boolean> {
  if (response.headersSent) throw new TypeError('`response`: its headers have been sent already')
  response.statusCode = status
  for (const [name, value] of headers) response.setHeader(name, value)
  const reader = read()
  const { leave } = reader
  // `close` also comes after the end, and does nothing then. An error of the socket is followed by it.
  response.on('close', leave)
  response.on('error', leave)
  try {
    if (response.destroyed) leave()
    else response.flushHeaders?.()
    for (;;) {
      const text = await reader.next()
      if (text === undefined) break
      if (!response.write(text) && !response.destroyed) await drained(response)
    }
    if (!response.destroyed) response.end()
    return !reader.isLeft
  } finally {
    response.off('close', leave)
  }
}

/** Until a client took what was written, or went. */
function drained(response: NodeResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done)
      response.off('close', done)
      resolve()
    }
    response.on('drain', done)
    response.on('close', done)
  })
}

export { responseOf, streamOf, textBytes, writeAll }
