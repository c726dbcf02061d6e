// Callbacks, signals and listeners of a caller that throw: they end no process and no other run, and lose no result. It must
// never read internal state; failures are visible in what Node reports.

import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { AgentEngine, AgentEngineError, parseSessionKey, scriptedProvider } from '../../index.js'
import { callbackWarnings } from '../support/callback-warnings.js'
import { afterwards, closing } from '../support/cleanup.js'
import { context, readAll, scriptedEngine, tempDir } from '../support/engine.js'
import { callTools, deferred, tool } from '../support/tools.js'
import { expectNothingStray } from '../support/uncaught.js'
import { ENGINE_OPTIONS } from '../support/values/engine-options.js'

expectNothingStray()

const thrower = (message: string) => () => {
  throw new Error(message)
}

/** The error that a call throws. */
function refused(call: () => unknown) {
  try {
    call()
  } catch (error) {
    expect(error).toBeInstanceOf(AgentEngineError)
    const { code, field } = error as AgentEngineError
    return { code, field }
  }
  throw new Error('nothing was thrown')
}

describe('callbacks', () => {
  test.each([
    ['a getter that throws', Object.defineProperty({}, 'onToolResult', { get: thrower('no') })],
    ['what is no function', { onToolResult: 'log' }],
    [
      'a proxy that throws',
      new Proxy({}, { get: (_, key) => key === 'onToolResult' && thrower('no')() }),
    ],
  ])('%s is refused at its path, and nothing has started', (_, callbacks) => {
    const { engine, provider } = scriptedEngine(['ok'])
    closing(engine)
    const refusal = refused(() => engine.run(context(), callbacks as never))
    expect(refusal.code).toBe('invalid_context')
    expect(refusal.field).toMatch(/^callbacks\.on/)
    expect(provider.requests).toEqual([])
  })

  test('callbacks are read once, at the start of the run, and never while it emits', async () => {
    const { engine } = scriptedEngine(['ok'])
    let reads = 0
    const received: string[] = []
    const run = closing(engine).run(context(), {
      get onPartialReply() {
        reads++
        return ({ text }: { text: string }) => void received.push(text)
      },
    })
    expect(reads).toBe(1)
    await run.result
    expect(reads).toBe(1)
    expect(received.join('')).toBe('ok')
  })
})

describe('the signals of tools', () => {
  /** A run that is aborted while its tool waits; `use` receives the tool's signal. */
  async function aborting(use: (signal: AbortSignal) => unknown) {
    const { engine } = scriptedEngine([callTools(['wait']), 'never'])
    const begun = deferred<void>()
    const run = closing(engine).run(
      context({
        tools: [
          tool('wait', (_, { signal }) => {
            use(signal)
            begun.resolve()
            return new Promise(() => {})
          }),
        ],
      }),
    )
    await begun.promise
    run.abort()
    return run.result
  }

  test.each<[string, (signal: AbortSignal) => unknown, string]>([
    ['throws', (signal) => signal.addEventListener('abort', thrower('boom')), 'boom'],
    [
      'rejects',
      (signal) => signal.addEventListener('abort', async () => thrower('async boom')()),
      'async boom',
    ],
    [
      'is an object that throws',
      (signal) => signal.addEventListener('abort', { handleEvent: thrower('handle boom') }),
      'handle boom',
    ],
    [
      'throws as `onabort`',
      (signal) => {
        signal.onabort = thrower('on boom')
      },
      'on boom',
    ],
  ])('a listener that %s is a warning, and the run ends as aborted', async (_, use, message) => {
    const seen = callbackWarnings()
    expect((await aborting(use)).stopReason).toBe('aborted')
    await new Promise((resolve) => setImmediate(resolve))
    expect(seen.map(({ message }) => message)).toEqual([
      `a callback of an agent run threw: ${message}`,
    ])
  })

  test('they are real signals: every way to add and remove listeners works', async () => {
    const received: string[] = []
    const hear = (name: string) => () => void received.push(name)
    let signal: AbortSignal | undefined
    let derived: AbortSignal | undefined
    let fetched: Promise<unknown> | undefined
    let waited: Promise<unknown> | undefined
    await aborting((given) => {
      signal = given
      const plain = hear('plain')
      given.addEventListener('abort', plain)
      // The same listener twice is one.
      given.addEventListener('abort', plain)
      given.addEventListener('abort', hear('once'), { once: true })
      given.addEventListener('abort', { handleEvent: hear('object') })
      const removed = hear('removed')
      given.addEventListener('abort', removed)
      given.removeEventListener('abort', removed)
      const capturing = hear('capturing')
      given.addEventListener('abort', capturing, { capture: true })
      given.removeEventListener('abort', capturing)
      const own = new AbortController()
      given.addEventListener('abort', hear('ended'), { signal: own.signal })
      own.abort()
      const on = hear('onabort')
      given.onabort = on
      expect(given.onabort).toBe(on)
      derived = AbortSignal.any([given, new AbortController().signal])
      derived.addEventListener('abort', hear('derived'))
      fetched = fetch('http://127.0.0.1:9/', { signal: given }).catch((error) => error.name)
      waited = once(given, 'abort')
    })
    await waited
    expect(signal).toBeInstanceOf(AbortSignal)
    expect(signal).toBeInstanceOf(EventTarget)
    expect(Object.prototype.toString.call(signal)).toBe('[object AbortSignal]')
    expect(signal?.aborted).toBe(true)
    expect(derived?.aborted).toBe(true)
    expect(() => signal?.throwIfAborted()).toThrow(signal?.reason)
    expect(received.sort()).toEqual(['capturing', 'derived', 'object', 'onabort', 'once', 'plain'])
    // Without a listener the connection may be refused before the abort is noticed.
    expect(['AbortError', 'TypeError']).toContain(await fetched)
  })

  test('a listener receives `this` and the event as of any signal', async () => {
    const received: unknown[] = []
    let own: AbortSignal | undefined
    await aborting((signal) => {
      own = signal
      signal.addEventListener('abort', function (this: unknown, event) {
        received.push(this, event.target, event.type)
      })
    })
    expect(received).toEqual([own, own, 'abort'])
  })
})

describe('the signal of a caller', () => {
  const plain = () => new AbortController().signal
  test.each<[string, () => unknown]>([
    [
      'whose `addEventListener` throws',
      () => Object.assign(plain(), { addEventListener: thrower('no') }),
    ],
    ['without `removeEventListener`', () => ({ aborted: false, addEventListener: () => {} })],
    [
      'whose `aborted` throws',
      () => Object.defineProperty(plain(), 'aborted', { get: thrower('no') }),
    ],
    [
      'that is a revoked proxy',
      () => {
        const { proxy, revoke } = Proxy.revocable(plain(), {})
        revoke()
        return proxy
      },
    ],
  ])('one %s is refused, and no turn runs', async (_, make) => {
    const dir = tempDir()
    afterwards(dir.remove)
    const { engine, provider } = scriptedEngine(['ok'], { ledger: { path: dir.file } })
    closing(engine)
    expect(refused(() => engine.run(context({ abortSignal: make() as AbortSignal })))).toEqual({
      code: 'invalid_context',
      field: 'abortSignal',
    })
    await engine.close()
    expect(provider.requests).toEqual([])
  })

  test('one that fires while a listener is added ends the run before any request', async () => {
    const { engine, provider } = scriptedEngine(['ok'])
    const eager = Object.assign(plain(), {
      addEventListener: (_: string, listener: () => void) => listener(),
    })
    const result = await closing(engine).run(context({ abortSignal: eager })).result
    expect(result.stopReason).toBe('aborted')
    expect(provider.requests).toEqual([])
  })

  test('one whose `removeEventListener` throws loses no result', async () => {
    const seen = callbackWarnings()
    const { engine } = scriptedEngine(['ok'])
    const abortSignal = Object.assign(plain(), { removeEventListener: thrower('remove boom') })
    const run = closing(engine).run(context({ abortSignal }))
    const events = await readAll(run)
    expect(events.at(-1)).toMatchObject({ type: 'stream_end', final: true })
    expect((await run.result).stopReason).toBe('end_turn')
    await new Promise((resolve) => setImmediate(resolve))
    expect(seen.map(({ message }) => message)).toEqual([
      'a callback of an agent run threw: remove boom',
    ])
  })
})

describe('failures of draining one run', () => {
  // The same module instance that the engine loads, so that its parts can be made to fail.
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const addon = `${root}${readdirSync(root).find((name) => name.endsWith('.node'))}`
  const { NativeHub } = createRequire(import.meta.url)(
    `../../${readdirSync(root).find((name) => name.endsWith('.node'))}`,
  )

  test('an unreadable record ends its run, and no other', async () => {
    const { engine } = scriptedEngine([{ text: 'poison' }])
    const other = scriptedEngine(['fine'])
    closing(engine)
    closing(other.engine)
    const { parse } = JSON
    afterwards(() => {
      JSON.parse = parse
    })
    JSON.parse = (text, ...rest) => {
      if (text.includes('"poison"') && text.includes('turnId')) throw new Error('unreadable')
      return parse(text, ...rest)
    }
    const run = engine.run(context())
    const healthy = other.engine.run(context())
    await expect(run.result).rejects.toMatchObject({ code: 'internal' })
    // Its reader ends too.
    await readAll(run)
    expect((await healthy.result).stopReason).toBe('end_turn')
    JSON.parse = parse
  })

  test('records that cannot be delivered end their runs; later runs work', async () => {
    const { engine } = scriptedEngine([{ steps: [{ text: 'poison' }, { gate: 'never' }] }, 'fine'])
    closing(engine)
    const { drain } = NativeHub.prototype
    afterwards(() => {
      NativeHub.prototype.drain = drain
    })
    let failures = 0
    NativeHub.prototype.drain = function (rows: Uint32Array) {
      const text = drain.call(this, rows)
      if (!text.includes('poison') || failures > 0) return text
      failures++
      throw new Error('Failed to convert')
    }
    await expect(engine.run(context()).result).rejects.toMatchObject({ code: 'internal' })
    expect((await engine.run(context({ sessionLabel: 'other' })).result).stopReason).toBe(
      'end_turn',
    )
  })
})

describe('the arguments of a method', () => {
  const revoked = () => {
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    return proxy as never
  }
  const trap = (field: string) =>
    Object.defineProperty({}, field, { get: thrower('no'), enumerable: true }) as never

  test('every method that reads an object refuses an unreadable one', async () => {
    const dir = tempDir()
    afterwards(dir.remove)
    const { engine } = scriptedEngine([], { ledger: { path: dir.file } })
    closing(engine)
    const { ledger } = engine
    const calls: (() => unknown)[] = [
      () => new AgentEngine(revoked()),
      () => new AgentEngine(trap('ledger')),
      () => new AgentEngine({ providers: revoked() }),
      () => new AgentEngine({ providers: trap('openai') }),
      () => new AgentEngine({ providers: { test: revoked() } }),
      () => new AgentEngine({ providers: {}, authProfiles: revoked() }),
      () => new AgentEngine({ providers: {}, authProfiles: [revoked()] }),
      () => new AgentEngine({ providers: {}, authProfiles: [trap('key')] }),
      () => new AgentEngine({ providers: {}, ledger: trap('path') }),
      () => engine.run(revoked()),
      () => engine.run(context({ tools: revoked() })),
      () => engine.run(context({ tokenBudget: revoked() })),
      () => engine.run(context({ currentMessage: revoked() })),
      () => engine.models(revoked()),
      () => engine.models(trap('provider')),
      () => engine.countTokens(context(), revoked()),
      () => engine.countTokens(revoked()),
      () => engine.compact('a', trap('signal')),
      () => engine.compact('a', revoked()),
      () => engine.resume('t', revoked()),
      () => engine.resume('t', trap('callbacks')),
      () => engine.resume('t', { callbacks: trap('onToolResult') }),
      () => engine.attach('r', revoked()),
      () => engine.attach('r', trap('afterSeq')),
      () => ledger.sessions(revoked()),
      () => ledger.sessions(trap('limit')),
      () => ledger.usage(revoked()),
      () => ledger.toolCalls(trap('limit')),
      () => ledger.search('x', revoked()),
      () => ledger.fork('t', revoked()),
      () => ledger.asOf('a', revoked()),
      () => ledger.query('SELECT 1', revoked()),
      () => ledger.query('SELECT ?1', [revoked()]),
      () => ledger.aliases(revoked()),
      () => ledger.putPersona('p', trap('name')),
      () => ledger.export('/tmp/x', revoked()),
      () => ledger.import('/tmp/x', trap('format')),
      () => ledger.writeTurn(context(), revoked()),
      () => ledger.writeTurn(context(), trap('messages')),
      () => scriptedProvider(revoked()),
      () => scriptedProvider([], revoked()),
      () => scriptedProvider([], trap('repeat')),
      () => scriptedProvider([]).open(5 as never),
      () => parseSessionKey(revoked()),
    ]
    for (const call of calls) {
      const error = await (async () => call())().then(
        () => undefined,
        (reason) => reason,
      )
      expect(error, String(call)).toBeInstanceOf(AgentEngineError)
      expect(error.code, String(call)).not.toBe('internal')
      expect(error.field, String(call)).toEqual(expect.any(String))
    }
  })

  test('a message repeats at most 200 characters of the arguments', async () => {
    const dir = tempDir()
    afterwards(dir.remove)
    const { engine } = scriptedEngine([], { ledger: { path: dir.file } })
    closing(engine)
    const { ledger } = engine
    const long = 'Ω'.repeat(1_000_000)
    const calls: (() => unknown)[] = [
      () => new AgentEngine({ [long]: 1 } as never),
      () => new AgentEngine({ providers: { [long]: { api: 'none' } } } as never),
      () => new AgentEngine({ providers: { x: { flavor: long } } } as never),
      () => new AgentEngine({ providers: {}, ledger: { path: '/tmp/x', [long]: 1 } } as never),
      () => engine.run(context({ provider: long })),
      () => engine.run(context({ model: long })),
      () => engine.run(context({ currentMessage: { role: long as 'user', content: 'x' } })),
      () => engine.run(context({ toolChoice: { type: 'tool', name: long } as never })),
      () => engine.run(context({ fallbacks: [long] })),
      () => engine.run(context({ sessionLabel: long })),
      () => engine.run(context({ authProfileId: long })),
      () => engine.attach('r', { [long]: 1 } as never),
      () => engine.resume(long),
      () => engine.resume('t', { [long]: 1 } as never),
      () => engine.discard(long),
      () => engine.resetProfile(long),
      () => engine.models({ [long]: 1 } as never),
      () => ledger.turn(long),
      () => ledger.history(long),
      () => ledger.ancestry(long),
      () => ledger.children(long),
      () => ledger.fork(long),
      () => ledger.sessions({ [long]: 1 } as never),
      () => ledger.sessions({ after: long } as never),
      () => ledger.query(long),
      () => ledger.alias(long, 'x'),
      () => ledger.persona(long),
      () => ledger.export('/tmp/x', { [long]: 1 } as never),
      () => ledger.import(`/tmp/${long.slice(0, 100_000)}`),
      () => ledger.backup(`/tmp/${long.slice(0, 100_000)}`),
    ]
    for (const call of calls) {
      const error = await (async () => call())().then(
        () => undefined,
        (reason) => reason,
      )
      const where = String(call)
      if (error === undefined) continue
      expect(error, where).toBeInstanceOf(AgentEngineError)
      expect(error.code, where).not.toBe('internal')
      expect(error.message.split('Ω').length - 1, where).toBeLessThanOrEqual(200)
      expect((error.field ?? '').length, where).toBeLessThanOrEqual(200)
    }
  })

  test('an empty message is refused before the run starts', () => {
    const { engine } = scriptedEngine(['ok'])
    closing(engine)
    for (const content of ['', ' \n', [], [{ type: 'text', text: '' }]]) {
      const currentMessage = { role: 'user', content } as never
      expect(refused(() => engine.run(context({ currentMessage })))).toEqual({
        code: 'invalid_context',
        field: 'currentMessage.content',
      })
    }
  })

  test('the error of an unknown option lists every option', () => {
    const error = (() => {
      try {
        new AgentEngine({ providers: {}, ledgr: {} } as never)
      } catch (thrown) {
        return thrown as AgentEngineError
      }
      throw new Error('nothing was thrown')
    })()
    expect(error).toMatchObject({ code: 'invalid_options', field: 'ledgr' })
    for (const name of ENGINE_OPTIONS) {
      expect(error.message).toContain(`\`${name}\``)
    }
  })
})
