// Gates: what waits until a test opens it. It must never leave a listener on a signal after its wait.

import type { Gate } from '../../testing.d.ts'

let gates = 0

class TestGate implements Gate {
  /** Its name in a script; no name of a test begins so. */
  readonly name = `$gate ${++gates}`
  #isOpen = false
  #waiters = new Set<() => void>()
  #reach: () => void = () => {}
  readonly reached = new Promise<void>((resolve) => {
    this.#reach = resolve
  })

  get isOpen(): boolean {
    return this.#isOpen
  }

  open(): void {
    this.#isOpen = true
    const waiters = [...this.#waiters]
    this.#waiters.clear()
    for (const waiter of waiters) waiter()
  }

  /** Calls `listener` once, when the gate is open. */
  whenOpen(listener: () => void): void {
    if (this.#isOpen) listener()
    else this.#waiters.add(listener)
  }

  async pass(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    if (this.#isOpen) return
    this.#reach()
    await new Promise<void>((resolve, reject) => {
      const leave = () => {
        this.#waiters.delete(enter)
        reject(signal?.reason)
      }
      const enter = () => {
        signal?.removeEventListener('abort', leave)
        resolve()
      }
      this.#waiters.add(enter)
      signal?.addEventListener('abort', leave, { once: true })
    })
  }
}

/** A gate, closed. */
function gate(): Gate {
  return new TestGate()
}

export { gate, TestGate }
