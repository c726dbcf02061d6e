// The abort signals that tools get: real ones, whose listeners cannot harm the process.
// Node hands what a listener throws to `uncaughtException`; here it goes to whoever made the signal.

/** What is kept of a signal: where its listeners' errors go, and each listener as it was registered. */
const kept = new WeakMap()
const { addEventListener, removeEventListener } = EventTarget.prototype
const onabort = Object.getOwnPropertyDescriptor(AbortSignal.prototype, 'onabort')

/**
 * Between a signal and `AbortSignal.prototype`. The class is never constructed: a signal of a controller gets this prototype, so
 * that it stays one for `fetch`, `AbortSignal.any` and `instanceof`.
 */
const guarded = Object.create(AbortSignal.prototype, {
  addEventListener: {
    value: function (type, listener, ...options) {
      return Reflect.apply(addEventListener, this, [type, shielded(this, listener), ...options])
    },
    writable: true,
    configurable: true,
  },
  removeEventListener: {
    value: function (type, listener, ...options) {
      const own = kept.get(this)?.listeners.get(listener) ?? listener
      return Reflect.apply(removeEventListener, this, [type, own, ...options])
    },
    writable: true,
    configurable: true,
  },
  onabort: {
    get() {
      return kept.get(this)?.onabort ?? null
    },
    set(listener) {
      const entry = kept.get(this)
      if (entry !== undefined) entry.onabort = listener
      Reflect.apply(onabort.set, this, [
        typeof listener === 'function' ? shielded(this, listener) : listener,
      ])
    },
    enumerable: true,
    configurable: true,
  },
})

/** The listener that is registered in place of the caller's: always the same one, so that it can be removed. */
function shielded(signal, listener) {
  const entry = kept.get(signal)
  const callable = typeof listener === 'function' || (typeof listener === 'object' && listener)
  if (entry === undefined || !callable) return listener
  const known = entry.listeners.get(listener)
  if (known !== undefined) return known
  const shield = function (event) {
    try {
      const returned =
        typeof listener === 'function'
          ? Reflect.apply(listener, this, [event])
          : listener.handleEvent(event)
      // Node reports a rejection as it reports a throw.
      if (returned !== null && typeof returned?.then === 'function') {
        returned.then(undefined, entry.warn)
      }
    } catch (error) {
      entry.warn(error)
    }
  }
  entry.listeners.set(listener, shield)
  return shield
}

/** A controller whose signal reports what its listeners throw, or reject with, to `warn`. */
function toolController(warn) {
  const controller = new AbortController()
  const { signal } = controller
  kept.set(signal, { warn, listeners: new WeakMap(), onabort: null })
  Object.setPrototypeOf(signal, guarded)
  return controller
}

export { toolController }
