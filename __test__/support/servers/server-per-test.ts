// A server for every test of a file: opened before each, closed after it. It must never pass a request on to the next test.

import { afterEach, beforeEach } from 'vitest'
import { type Handler, type TestServer, testServer } from './server.js'

/** The server of the current test; `handler` creates its answer until `use` is called. */
export function serverPerTest(handler: () => Handler): TestServer {
  let server: TestServer
  beforeEach(async () => {
    server = await testServer(handler())
  })
  afterEach(() => server.close())
  return {
    get url() {
      return server.url
    },
    get seen() {
      return server.seen
    },
    connections: () => server.connections(),
    deserted: () => server.deserted(),
    use: (...handlers) => server.use(...handlers),
    close: () => server.close(),
  }
}
