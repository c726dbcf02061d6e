// Hostile values of a caller: unreadable, endless, cut, inconsistent. Each is created from a seed, so that it can be repeated. It
// must never create a value that ends the process by itself.

/** A generator of numbers: the same seed gives the same ones. */
export class Random {
  #state: number

  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** A whole number from 0 to `below` - 1. */
  int(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }

  /** True once in `times`. */
  once(times: number): boolean {
    return this.int(times) === 0
  }

  pick<T>(list: readonly T[]): T {
    return list[this.int(list.length)] as T
  }
}

/** The marker in every text of these values: its count in a message shows how much of them is repeated. */
export const MARK = 'Ω'

class Instance {
  own = MARK
  get accessor() {
    return 1
  }
}

const boom = () => {
  throw new Error(`${MARK.repeat(300)} boom`)
}

/** Something to throw: an error, or another value. */
export function thrown(random: Random): unknown {
  return random.pick<() => unknown>([
    () => new Error(MARK.repeat(1_000)),
    () => MARK,
    () => undefined,
    () => null,
    () => Symbol('s'),
    () => Object.defineProperty({}, 'message', { get: boom }),
    () => revoked({}),
    () => Object.create(null),
  ])()
}

function revoked<T extends object>(target: T): T {
  const { proxy, revoke } = Proxy.revocable(target, {})
  revoke()
  return proxy
}

/** A proxy of `target` with some throwing operations. */
function trapping<T extends object>(random: Random, target: T): T {
  const traps = ['get', 'has', 'ownKeys', 'getOwnPropertyDescriptor', 'getPrototypeOf', 'apply']
  const handler: Record<string, () => never> = {}
  for (const trap of traps) if (random.once(2)) handler[trap] = boom
  return new Proxy(target, handler)
}

/** An object whose every field is an object like it. */
function bottomless(): object {
  return new Proxy(
    {},
    {
      get: (_, key) => (key === 'toJSON' || key === 'then' ? undefined : bottomless()),
      ownKeys: () => ['a'],
      getOwnPropertyDescriptor: () => ({ enumerable: true, configurable: true }),
    },
  )
}

/** A thenable that violates the rules of promises. */
export function thenable(random: Random): unknown {
  return random.pick<() => unknown>([
    () => ({ then: boom }),
    () => Object.defineProperty({}, 'then', { get: boom }),
    () => ({
      then: (resolve: (value: unknown) => void) => {
        resolve(1)
        boom()
      },
    }),
    () => ({
      then: (_: unknown, reject?: (error: unknown) => void) => {
        reject?.(thrown(random))
        reject?.(thrown(random))
      },
    }),
    () => {
      const rejected = Promise.reject(thrown(random))
      // If it is not awaited, it is no rejection of the engine; a promise derived from it is.
      rejected.catch(() => {})
      return rejected
    },
  ])()
}

/** A function that throws, rejects, or returns any value. */
export function hostileFunction(random: Random): (...args: any[]) => unknown {
  return random.pick<() => (...args: any[]) => unknown>([
    () => () => {
      throw thrown(random)
    },
    () => async () => {
      throw thrown(random)
    },
    () => () => thenable(random),
    () => () => hostile(random),
    () => async () => hostile(random),
    () => trapping(random, () => 1),
    () => revoked(() => 1),
    () => (value: any) => {
      // It modifies its arguments.
      for (const key of Object.keys(value ?? {})) delete value[key]
    },
  ])()
}

/** Any value except a meaningful string. */
export function hostile(random: Random, depth = 0): unknown {
  const inner = () => (depth > 3 ? 1 : hostile(random, depth + 1))
  return random.pick<() => unknown>([
    () => undefined,
    () => null,
    () => Number.NaN,
    () => Number.NEGATIVE_INFINITY,
    () => -1,
    () => 2 ** 53,
    () => 1e300,
    () => true,
    () => 5n,
    () => Symbol('s'),
    () => '',
    () => '\ud83d',
    () => `\udc00 ${MARK} \ud83d`,
    () => MARK.repeat(1 + random.int(100_000)),
    () => '`'.repeat(random.int(1_000)),
    () => '\u0000\n\u001b[31m',
    () => boom,
    () => hostileFunction(random),
    () => thenable(random),
    () => revoked({}),
    () => revoked([]),
    () => trapping(random, {}),
    () => trapping(random, [1, 2]),
    () => trapping(random, { a: inner() }),
    () => bottomless(),
    () => Object.defineProperty({}, 'field', { get: boom, enumerable: true }),
    () => Object.defineProperty([1], '0', { get: boom, enumerable: true }),
    () => ({ toJSON: boom }),
    () => ({ toJSON: () => 5n }),
    () => {
      const cycle: Record<string, unknown> = { [MARK.repeat(random.int(500))]: 1 }
      cycle.self = [cycle]
      return cycle
    },
    () => new Instance(),
    () => new Map([[inner(), inner()]]),
    () => new Date(Number.NaN),
    () => Object.freeze({ frozen: Object.freeze([inner()]) }),
    () => Object.freeze([inner()]),
    () => Object.create(null),
    () => JSON.parse('{"__proto__": {"polluted": true}}'),
    () => ({ [MARK.repeat(1 + random.int(5_000))]: inner() }),
    () => [inner(), inner()],
    () => new Array(random.int(50)),
    () => new Uint8Array(random.int(5_000)),
    () => Buffer.alloc(random.int(5_000)),
    () => Object('boxed \ud83d'),
    () =>
      new Proxy([], { get: (target, key) => (key === 'length' ? -5 : Reflect.get(target, key)) }),
    () => {
      let deep: unknown = 1
      for (let level = random.int(20_000); level > 0; level--) deep = level % 2 ? [deep] : { deep }
      return deep
    },
    () => new AbortController().signal,
    () => globalThis,
  ])()
}

/** An invalid or misbehaving abort signal. */
export function hostileSignal(random: Random): unknown {
  const { signal } = new AbortController()
  return random.pick<() => unknown>([
    () => hostile(random),
    () => Object.assign(signal, { addEventListener: hostileFunction(random) }),
    () => Object.assign(signal, { removeEventListener: hostileFunction(random) }),
    () => Object.defineProperty(signal, 'aborted', { get: hostileFunction(random) }),
    () => Object.defineProperty(signal, 'addEventListener', { get: boom }),
    () => ({ aborted: false, addEventListener: (_: string, hear: () => void) => hear() }),
    () => ({
      aborted: false,
      addEventListener: (_: string, hear: () => void) => {
        hear()
        hear()
        throw thrown(random)
      },
      removeEventListener: hostileFunction(random),
    }),
    () => ({
      aborted: false,
      addEventListener: (_: string, hear: () => void) => void setImmediate(hear),
      removeEventListener: hostileFunction(random),
    }),
    () => trapping(random, signal),
    () => revoked(signal),
    () => AbortSignal.abort(thrown(random)),
    () => AbortSignal.timeout(1 + random.int(5)),
  ])()
}
