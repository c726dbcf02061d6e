// The side effect of the recovery tests: a counter over HTTP that stores every posted key. It must never lose an effect of a killed
// child.

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Counter {
  url: string
  /** How often each key was posted, by the class of its tool. */
  effects: Map<string, Map<string, number>>
  /** The queried keys. */
  queried: string[]
  close(): Promise<void>
}

/** A counter on the loopback interface. */
export async function counter(): Promise<Counter> {
  const effects = new Map<string, Map<string, number>>()
  const queried: string[] = []
  const server = createServer((request, response) => {
    const [, first = '', second = '', third = ''] = (request.url ?? '').split('/')
    if (first === 'queried') {
      queried.push(third)
      response.end(effects.get(second)?.has(third) ? 'yes' : 'no')
      return
    }
    const keys = effects.get(first) ?? new Map<string, number>()
    effects.set(first, keys)
    keys.set(second, (keys.get(second) ?? 0) + 1)
    response.end('counted')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    effects,
    queried,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections()
        server.close(() => resolve())
      }),
  }
}
