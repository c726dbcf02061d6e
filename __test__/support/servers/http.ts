// A loopback `node:http` server for one handler, as a user of the package writes it. It must never outlive its test.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { afterwards } from '../cleanup.js'

/** Answers each request; returns the URL and what ends all connections. */
export async function httpServer(
  handler: (request: IncomingMessage, response: ServerResponse) => unknown,
): Promise<{ url: string; disconnect: () => void }> {
  const server = createServer((request, response) => {
    Promise.resolve(handler(request, response)).catch((error) => response.destroy(error))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterwards(() => {
    server.closeAllConnections()
    return new Promise((resolve) => server.close(resolve))
  })
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, disconnect: () => server.closeAllConnections() }
}

/** Sends a WHATWG response, as the servers of `fetch` handlers do. */
export async function send(web: Response, response: ServerResponse): Promise<void> {
  response.writeHead(web.status, Object.fromEntries(web.headers))
  if (web.body === null) response.end()
  // A client that disconnects is no failure of the server: the pipeline cancels the body.
  else await pipeline(Readable.fromWeb(web.body as never), response).catch(() => {})
}
