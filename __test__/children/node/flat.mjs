// A thousand sequential short runs: the memory of the process before and after, as JSON. Needs --expose-gc.
import { readFileSync, writeSync } from 'node:fs'
import { context, scripted } from '../common.mjs'

const [file] = process.argv.slice(2)
const RUNS = 1_000
const SAMPLE_EVERY = 20

const { engine } = scripted(
  [{ thinking: 'hm', text: 'abcdefgh', toolCalls: [{ name: 'echo' }], chunkSize: 1 }, 'done'],
  file === undefined ? {} : { ledger: { path: file, synchronous: 'normal' } },
  { repeat: true },
)
const { signal } = new AbortController()
const tools = [{ name: 'echo', run: (params) => params }]

function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[numbers.length >> 1]
}

/**
 * What the process holds of memory that is its own. Where the system reports it, without pages of files: the optimising compiler
 * of V8 runs for the first time at some 500 runs, and pages 5 MB of Node's own code in.
 */
function own() {
  try {
    const [, kib] = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))
    return Number(kib) * 1024
  } catch {
    return process.memoryUsage().rss
  }
}

const heap = []
const rss = []
for (let n = 0; n < RUNS; n++) {
  // A session each, so that no history grows.
  const run = engine.run(context({ sessionLabel: `s${n}`, tools, abortSignal: signal }))
  let events = 0
  for await (const _ of run) events++
  const { stopReason } = await run.result
  if (stopReason !== 'end_turn' || events !== 18)
    throw new Error(`${stopReason} after ${events} events`)
  if (n % SAMPLE_EVERY === 0) {
    globalThis.gc()
    heap.push(process.memoryUsage().heapUsed)
    rss.push(own())
  }
}
// The first fifth fills caches.
const fifth = heap.length / 5
const growth = (samples) => median(samples.slice(-fifth)) - median(samples.slice(fifth, 2 * fifth))
const resources = process
  .getActiveResourcesInfo()
  .filter((name) => name !== 'TTYWrap' && name !== 'PipeWrap')
writeSync(1, JSON.stringify({ heap: growth(heap), rss: growth(rss), resources }))
