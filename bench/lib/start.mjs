// W7: the time to load the package and the memory of an idle engine, in new processes, interleaved.
// It must measure each in a separate process, because a loaded module cannot be unloaded.

import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const BARE = '(bare Node)'
/** Any URL that is allowed without TLS: an idle engine calls no provider. */
const OPTIONS = `{
  providers: { anthropic: { api: 'anthropic-messages', baseUrl: 'http://127.0.0.1:9' } },
  authProfiles: [{ id: 'a', provider: 'anthropic', type: 'api_key', key: 'k' }],
}`

/** Scripts by adapter: `load` is timed, `use` is what makes it ready; both run in `folder`. */
function scripts(work, engine, adapters) {
  const load = `const { AgentEngine } = createRequire(import.meta.url)(${JSON.stringify(engine)})`
  const all = {
    [BARE]: { folder: work, load: '' },
    'nexus-mem': { folder: work, load, use: `const engine = new AgentEngine(${OPTIONS})` },
    'nexus-ledger': {
      folder: work,
      load,
      use: `const engine = new AgentEngine({ ...(${OPTIONS}), ledger: { path: process.env.LEDGER } })
        await engine.ledger.query('SELECT 1')`,
    },
    'napi-floor': {
      folder: path.join(work, 'napi-floor'),
      load: `const { Engine } = await import('./index.mjs')`,
      use: `const engine = new Engine('http://127.0.0.1:9')`,
    },
    'pi-agent-latest': {
      folder: path.join(work, 'peers/pilatest'),
      load: `await import('@mariozechner/pi-ai'); await import('@mariozechner/pi-agent-core')`,
    },
    'pi-agent-054': {
      folder: path.join(work, 'peers/pi054'),
      load: `await import('@mariozechner/pi-ai'); await import('@mariozechner/pi-agent-core')`,
    },
  }
  return Object.entries(all).filter(([name]) => name === BARE || adapters.includes(name))
}

function program({ load, use = '' }) {
  return `import fs from 'node:fs'
    import { createRequire } from 'node:module'
    const started = performance.now()
    ${load}
    const import_ms = performance.now() - started
    ${use}
    await new Promise((resolve) => setTimeout(resolve, 100))
    const rss = /VmRSS:\\s+(\\d+)/.exec(fs.readFileSync('/proc/self/status', 'utf8'))
    fs.writeSync(1, JSON.stringify({ import_ms, rss_mb: Number(rss[1]) / 1024 }) + '\\n')
    process.exit(0)`
}

/** Measures every adapter `reps` times; the same shape as the harness's: medians by adapter. */
export function measureStart({ work, adapters, reps, node, env }, progressOf) {
  const rows = []
  const list = scripts(work, env.NEXUS_ENGINE, adapters)
  const onRun = progressOf(list.length * reps)
  const core = os.cpus().length > 1 ? '1' : '0'
  for (let rep = 0; rep < reps; rep++) {
    for (const [adapter, script] of rep % 2 ? [...list].reverse() : list) {
      const folder = fs.mkdtempSync(path.join(env.NEXUS_BENCH_LEDGERS, 'start-'))
      const args = ['-c', core, node, '--input-type=module', '--eval', program(script)]
      const child = spawnSync('taskset', args, {
        cwd: script.folder,
        encoding: 'utf8',
        env: { ...process.env, ...env, LEDGER: path.join(folder, 'agents.db') },
      })
      fs.rmSync(folder, { recursive: true, force: true })
      const last = child.stdout?.trim().split('\n').pop()
      const row = last
        ? JSON.parse(last)
        : { error: (child.stderr || String(child.error)).slice(-400) }
      rows.push({ adapter, rep, load: os.loadavg()[0], ...row })
      onRun(rows.at(-1))
    }
  }
  return { summary: medians(rows), rows }
}

function medians(rows) {
  const of = (adapter, metric) => {
    const values = rows
      .filter((row) => row.adapter === adapter && !row.error)
      .map((row) => row[metric])
    return values.sort((a, b) => a - b)[values.length >> 1]
  }
  const bare = of(BARE, 'rss_mb')
  const names = [...new Set(rows.map(({ adapter }) => adapter))].filter((name) => name !== BARE)
  return Object.fromEntries(
    names.map((name) => {
      const rss = of(name, 'rss_mb')
      if (rss === undefined)
        return [name, { error: rows.find((row) => row.adapter === name).error }]
      return [name, { import_ms: of(name, 'import_ms'), rss_mb: rss, rss_over_bare_mb: rss - bare }]
    }),
  )
}
