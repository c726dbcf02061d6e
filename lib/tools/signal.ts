// The abort signals of tools: real ones, whose listeners cannot harm the process.
// Node.js reports a throw of a listener as `uncaughtException`; here it is reported to the creator of the signal.

type Warn = (error: unknown) => void
type Listener = ((event: unknown) => unknown) | { handleEvent(event: unknown): unknown }

/** A signal's warning function, its `onabort`, and the shield of each listener. */
interface Registration {
  warn: Warn
  shields: WeakMap<object, (event: unknown) => void>
  onabort: unknown
}

const registrations = new WeakMap<AbortSignal, Registration>()
const { addEventListener, removeEventListener } = EventTarget.prototype
const onabort = Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'onabort')

/**
 * A prototype between a signal and `AbortSignal.prototype`. The class is never constructed: the signal of a controller gets this
 * prototype, so that `fetch`, `AbortSignal.any` and `instanceof` still accept it.
 */
const guarded = Object.create(AbortSignal.prototype, {
  addEventListener: {
    value: function (this: AbortSignal, type: string, listener: unknown, ...options: unknown[]) {
      return Reflect.apply(addEventListener, this, [type, shielded(this, listener), ...options])
    },
    writable: true,
    configurable: true,
  },
  removeEventListener: {
    value: function (this: AbortSignal, type: string, listener: unknown, ...options: unknown[]) {
      const shield = registrations.get(this)?.shields.get(listener as object) ?? listener
      return Reflect.apply(removeEventListener, this, [type, shield, ...options])
    },
    writable: true,
    configurable: true,
  },
  onabort: {
    get(this: AbortSignal) {
      return registrations.get(this)?.onabort ?? null
    },
    set(this: AbortSignal, listener: unknown) {
      const registration = registrations.get(this)
      if (registration !== undefined) registration.onabort = listener
      onabort?.set?.call(this, typeof listener === 'function' ? shielded(this, listener) : listener)
    },
    enumerable: true,
    configurable: true,
  },
})

/** The listener that is registered instead of the caller's: always the same one, so that it can be removed. */
function shielded(signal: AbortSignal, given: unknown): unknown {
  const registration = registrations.get(signal)
  if (registration === undefined || !isListener(given)) return given
  const { warn, shields } = registration
  const known = shields.get(given)
  if (known !== undefined) return known
  const shield = function (this: unknown, event: unknown) {
    try {
      const returned: unknown =
        typeof given === 'function' ? Reflect.apply(given, this, [event]) : given.handleEvent(event)
      // Node reports a rejection as it reports a throw.
      if (isThenable(returned)) returned.then(undefined, warn)
    } catch (error) {
      warn(error)
    }
  }
  shields.set(given, shield)
  return shield
}

/** Whether `EventTarget` accepts it as a listener. */
function isListener(given: unknown): given is Listener {
  return typeof given === 'function' || (typeof given === 'object' && given !== null)
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  if (value === null || value === undefined) return false
  return typeof (value as { then?: unknown }).then === 'function'
}

/** A controller whose signal reports throws and rejections of its listeners to `warn`. */
function toolController(warn: Warn): AbortController {
  const controller = new AbortController()
  const { signal } = controller
  registrations.set(signal, { warn, shields: new WeakMap(), onabort: null })
  Object.setPrototypeOf(signal, guarded)
  return controller
}

export { toolController }
