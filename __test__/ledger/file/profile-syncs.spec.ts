// The cost of using a key: the last use of a profile is written with the next commit, and causes no sync of its own. It must
// never measure time.

import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { afterwards, folder } from '../../support/cleanup.js'
import { killable } from '../../support/processes/killable.js'
import { canPreload, library } from '../../support/processes/preload.js'
import { key, replyWith, type World, world } from '../../support/servers/failover.js'

let it: World
let preload = ''
beforeAll(async () => {
  it = await world()
  it.answers(() => replyWith('ok'))
  if (canPreload) preload = library('eio')
})
afterAll(() => it.server.close())

const profile = (id: string, provider = 'test') => ({ id, provider, key: key(id) })
const providers = () => ({
  test: { api: 'anthropic-messages', baseUrl: it.server.url },
  other: { api: 'openai-chat', baseUrl: it.server.url },
})

/** The number of syncs in each of three new sessions, and the state of the profiles afterwards. */
async function syncs(authProfiles: object[]) {
  const { path, file } = folder()
  const log = join(path, 'syncs')
  const options = JSON.stringify({ authProfiles, providers: providers() })
  const child = killable('providers/clock.mjs', [file, it.server.url, options], {
    LD_PRELOAD: preload,
    FAULT_FILE: file,
    FAULT_SYNCS: log,
  })
  afterwards(() => child.kill())
  await child.line('ready')
  const seen: number[] = []
  let before = existsSync(log) ? statSync(log).size : 0
  for (const name of ['one', 'two', 'three']) {
    child.process.stdin?.write(`${name}\n`)
    expect(JSON.parse((await child.line(`${name} `)).slice(name.length + 1))).toMatchObject({
      stopReason: 'end_turn',
      persisted: true,
    })
    const now = statSync(log).size
    seen.push(now - before)
    before = now
  }
  child.process.stdin?.end()
  await child.ended
  return seen
}

test.skipIf(!canPreload)(
  'a new session has as many syncs with several profiles as with one (cc, Linux)',
  async () => {
    const one = await syncs([profile('a')])
    expect(one.every((count) => count > 0)).toBe(true)
    expect(await syncs([profile('a'), profile('b')])).toEqual(one)
    expect(await syncs([profile('a'), profile('o', 'other')])).toEqual(one)
  },
)
