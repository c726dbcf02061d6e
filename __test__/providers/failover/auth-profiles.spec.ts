// The sources of keys, and the storage of their state: functions, expiring tokens, the ledger, two processes
// (docs/rules/failover.md#profile-state). It must never print a key.

import { readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { AgentEngineOptions, KeyGiven, KeyRequest } from '../../../index.js'
import { closing, folder } from '../../support/cleanup.js'
import { context, scriptedEngine } from '../../support/engine.js'
import { killable } from '../../support/processes/killable.js'
import { failWith, key, replyWith, type World, world } from '../../support/servers/failover.js'

let it: World
beforeEach(async () => {
  it = await world()
})
afterEach(() => it.server.close())

const userTurn = (sessionLabel = 's') => context({ model: 'm1', sessionLabel, timeoutMs: 20_000 })
type Profiles = AgentEngineOptions['authProfiles']
const engineWith = (authProfiles: Profiles, options: AgentEngineOptions = {}) =>
  it.engine({ authProfiles, ...options })

describe('a key from a function', () => {
  test('is requested once for any number of runs, and sent as its type requires', async () => {
    const requests: KeyRequest[] = []
    const get = async (request: KeyRequest) => {
      requests.push(request)
      await new Promise((resolve) => setImmediate(resolve))
      return key('fn')
    }
    const engine = engineWith([
      { id: 'p', provider: 'test', key: get },
      { id: 't', provider: 'other', type: 'token', key: () => key('tok') },
    ])
    const runs = ['s1', 's2', 's3'].map((label) => engine.run(userTurn(label)).result)
    expect((await Promise.all(runs)).map(({ stopReason }) => stopReason)).toEqual(
      Array(3).fill('end_turn'),
    )
    expect(requests).toEqual([{ profileId: 'p', refused: false }])
    expect(it.requested).toEqual(Array(3).fill('m1/fn'))
    expect(it.server.seen[0]?.headers['x-api-key']).toBe(key('fn'))
    await engine.run(context({ model: 'o1', provider: 'other', sessionLabel: 's4' })).result
    expect(it.server.seen.at(-1)?.headers.authorization).toBe(`Bearer ${key('tok')}`)
    expect((await engine.profiles()).map(({ id, type }) => [id, type])).toEqual([
      ['t', 'token'],
      ['p', 'api_key'],
    ])
  })

  test('is requested again when it was refused, and the run continues with it', async () => {
    const given = ['one', 'two']
    const requests: boolean[] = []
    const engine = engineWith([
      {
        id: 'p',
        provider: 'test',
        key: ({ refused }) => {
          requests.push(refused)
          return key(given.shift() ?? 'none')
        },
      },
    ])
    await engine.run(userTurn()).result
    it.answers((_, name) => (name === 'one' ? failWith(401) : replyWith('ok')))
    const result = await engine.run(userTurn()).result
    expect(result.stopReason).toBe('end_turn')
    expect(it.requested).toEqual(['m1/one', 'm1/one', 'm1/two'])
    expect(requests).toEqual([false, true])
    // A key that is refused right after it was returned cools the profile.
    it.answers(() => failWith(401))
    const refused = await engine.run(userTurn()).result
    expect(refused.error?.kind).toBe('auth_failure')
    expect(it.requested.slice(3)).toEqual(['m1/two', 'm1/none'])
    expect(requests).toEqual([false, true, true])
  })

  test('an oauth token is used as given and refreshed before it expires', async () => {
    const requests: KeyRequest[] = []
    const refresh = (request: KeyRequest): KeyGiven => {
      requests.push(request)
      return { key: key(`new${requests.length}`), expiresAt: Date.now() + 3_600_000 }
    }
    const profile = { provider: 'test', type: 'oauth', refresh } as const
    const good = engineWith([
      { ...profile, id: 'good', key: key('old'), expiresAt: Date.now() + 3_600_000 },
    ])
    await good.run(userTurn()).result
    const ended = engineWith([{ ...profile, id: 'ended', key: key('old'), expiresAt: Date.now() }])
    await ended.run(userTurn()).result
    await ended.run(userTurn()).result
    expect(it.requested).toEqual(['m1/old', 'm1/new1', 'm1/new1'])
    expect(requests).toEqual([{ profileId: 'ended', refused: false }])
    expect(it.server.seen.map(({ headers }) => headers.authorization)).toEqual([
      `Bearer ${key('old')}`,
      `Bearer ${key('new1')}`,
      `Bearer ${key('new1')}`,
    ])
  })

  test.each([
    [
      'throws',
      () => {
        throw new Error(`no key, not even ${key('leak')}`)
      },
    ],
    ['rejects', () => Promise.reject(new Error('vault is shut'))],
    ['gives nothing', () => undefined],
    ['gives a number', () => 7],
    ['gives two words', () => 'two words'],
    ['gives an end that is no time', () => ({ key: key('x'), expiresAt: 'soon' })],
  ])('that %s is an auth failure: the next profile is used', async (_, get) => {
    const engine = engineWith([
      { id: 'a', provider: 'test', key: get as () => string },
      { id: 'b', provider: 'test', key: key('b') },
    ])
    expect((await engine.run(userTurn()).result).stopReason).toBe('end_turn')
    expect(it.requested).toEqual(['m1/b'])
    const alone = engineWith([{ id: 'a', provider: 'test', key: get as () => string }])
    const result = await alone.run(userTurn()).result
    expect(result.error).toMatchObject({ kind: 'auth_failure', detail: { code: 'key_callback' } })
    expect(JSON.stringify(result)).not.toContain('canary')
    expect(result.attempts).toEqual([])
  })

  test('no result, event or row shows it', async () => {
    const { file } = folder()
    const engine = engineWith([{ id: 'p', provider: 'test', key: () => key('secret') }], {
      ledger: { path: file },
    })
    it.answers((_, name) => failWith(403, `the key ${key(name)} may not`))
    const result = await engine.run(userTurn()).result
    expect(result.error?.message).toContain('may not')
    await engine.close()
    for (const path of [file, `${file}-wal`].filter((path) => path === file)) {
      expect(readFileSync(path).includes(key('secret'))).toBe(false)
    }
    expect(JSON.stringify(result)).not.toContain(key('secret'))
  })

  test('an aborted run does not wait for it', async () => {
    let requested = () => {}
    const waiting = new Promise<void>((resolve) => {
      requested = resolve
    })
    const engine = engineWith([
      {
        id: 'p',
        provider: 'test',
        key: () => {
          requested()
          return new Promise<string>(() => {})
        },
      },
    ])
    const run = engine.run(userTurn())
    await waiting
    run.abort()
    expect((await run.result).stopReason).toBe('aborted')
    await engine.close()
    expect(it.requested).toEqual([])
  })

  test.each<[object, string]>([
    [{ type: 'oauth', key: 'x' }, 'refresh'],
    [{ type: 'oauth', key: () => 'x' }, 'refresh'],
    [{ type: 'oauth', refresh: 7 }, 'refresh'],
    [{ type: 'token', key: 'x', refresh: () => 'x' }, 'refresh'],
    [{ type: 'oauth', key: () => 'x', refresh: () => 'x' }, 'key'],
    [{ key: 'x', expiresAt: 5 }, 'expiresAt'],
    [{ key: 'x', hosted: true }, 'hosted'],
  ])('a wrong value is refused immediately: %o', (profile, field) => {
    const profiles = [{ id: 'p', provider: 'test', ...profile }] as Profiles
    expect(() => engineWith(profiles)).toThrow(
      expect.objectContaining({ code: 'invalid_options', field: `authProfiles[0].${field}` }),
    )
  })
})

describe('the state of profiles', () => {
  test('survives a restart, and is cleared by a reset', async () => {
    const { file } = folder()
    const ledger = { path: file }
    it.answers((_, name) => (name === 'a' ? failWith(402) : replyWith('ok')))
    const first = it.engine({ ledger })
    await first.run(userTurn()).result
    const before = await first.profiles()
    await first.close()
    const second = it.engine({ ledger })
    expect((await second.profiles()).find(({ id }) => id === 'a')).toEqual(
      before.find(({ id }) => id === 'a'),
    )
    expect(before.find(({ id }) => id === 'a')?.windows).toMatchObject([
      { model: null, reason: 'billing' },
    ])
    await second.run(userTurn('new')).result
    expect(it.requested).toEqual(['m1/a', 'm1/b', 'm1/b'])
    await second.resetProfile('a')
    it.answers(() => replyWith('ok'))
    await second.run(userTurn('newer')).result
    expect(it.requested.at(-1)).toBe('m1/a')
    const { rows } = await second.ledger.query(
      'SELECT * FROM auth_profile_usage WHERE profile_id = ?',
      ['a'],
    )
    expect(rows).toMatchObject([{ failures: 0, refusals: 0, windows_json: '[]' }])
    expect(JSON.stringify(rows)).not.toContain('canary')
  })

  test('a session has the same profile after a restart, and a fork that of its origin', async () => {
    const { file } = folder()
    const ledger = { path: file }
    const first = it.engine({ ledger })
    for (const label of ['s1', 's2']) await first.run(userTurn(label)).result
    expect(it.requested).toEqual(['m1/a', 'm1/b'])
    await first.close()
    // By the order alone it would be the least recently used profile.
    const second = it.engine({ ledger, compaction: { strategies: ['hard_clear'] } })
    const { turnId } = await second.run(userTurn('s2')).result
    expect(it.requested.at(-1)).toBe('m1/b')
    const fork = await second.ledger.fork(turnId)
    await second.run(userTurn(fork.label)).result
    expect(it.requested.at(-1)).toBe('m1/b')
    // After a compaction the profile is chosen again.
    expect(await second.compact('s2')).not.toBeNull()
    await second.close()
    const third = it.engine({ ledger })
    await third.run(userTurn('s2')).result
    expect(it.requested.at(-1)).toBe('m1/a')
  })

  test('is shared by two processes: a profile that one was refused with, the other does not use', async () => {
    const { file } = folder()
    it.answers((_, name) => (name === 'a' ? failWith(402) : replyWith('ok')))
    await it.engine({ ledger: { path: file } }).close()
    const [left, right] = ['left', 'right'].map((name) =>
      killable('providers/profiles.mjs', [file, it.server.url, JSON.stringify([name])]),
    )
    if (!left || !right) throw new Error('no children')
    await Promise.all([left.line('ready'), right.line('ready')])
    left.process.stdin?.write('go\n')
    await left.ended
    right.process.stdin?.write('go\n')
    await right.ended
    expect(left.lines).toContain('left: a false, b true end_turn')
    expect(right.lines).toContain('right: b true end_turn')
    expect(it.requested).toEqual(['m1/a', 'm1/b', 'm1/b'])
  })

  test('windows follow the options: the ladder, and the first of billing', async () => {
    const lengths = async (failover: AgentEngineOptions['failover'], code: number) => {
      it.answers(() => failWith(code))
      const engine = it.engine({ failover }, ['a'])
      await engine.run(userTurn()).result
      const windows = (await engine.profiles()).flatMap((state) => state.windows)
      return windows.map(({ from, until }) => until - from)
    }
    expect(await lengths({}, 429)).toEqual([30_000])
    expect(await lengths({ ladder: 'legacy' }, 429)).toEqual([60_000])
    expect(await lengths({}, 402)).toEqual([600_000])
    expect(await lengths({ billingBaseMs: 5_000 }, 402)).toEqual([5_000])
  })

  test('a ledger without failures, and an engine without keys, have none', async () => {
    const { file } = folder()
    const { engine } = scriptedEngine(['ok'], { ledger: { path: file } })
    closing(engine)
    await engine.run(context()).result
    expect(await engine.profiles()).toEqual([])
  })
})
