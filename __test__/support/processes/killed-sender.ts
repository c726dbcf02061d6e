// A broker's process that was killed within a turn. It must never leave a lease that has not ended.

import { askedServer } from '../broker.js'
import { leasesEnd, newLedger } from '../ledger/named.js'
import { killable } from './killable.js'

/** The ledger of a process that was killed when the turn of its message had run a tool, and the server that it asked. */
export async function killedAfterTool() {
  const { server, next } = await askedServer()
  const file = newLedger()
  const killed = killable('broker/sender.mjs', [file, server.url, 'one', '1', 'stay'])
  ;(await next()).calls(['call_1', 'note', {}])
  // It has run its tool.
  await next()
  killed.kill()
  await killed.ended
  leasesEnd(file)
  return { server, next, file }
}
