// Bundles: with the package as an external they run; without, and in a browser, one sentence says why not. It must never load the addon
// into this process.

import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'esbuild'
import { rolldown } from 'rolldown'
import { afterAll, beforeAll, expect, test } from 'vitest'
import webpack, { type Configuration } from 'webpack'
import { install, printed } from './installed.js'

let project: string
let outside: string

beforeAll(() => {
  project = mkdtempSync(join(tmpdir(), 'agent-engine-bundles-'))
  install(project)
  // A folder from which the package cannot be found.
  outside = mkdtempSync(join(tmpdir(), 'agent-engine-outside-'))
  writeFileSync(
    join(project, 'load.cjs'),
    `try { console.log(typeof require('@nexus/agent-engine').AgentEngine) } catch (error) {
       console.log(JSON.stringify([error.code, error.message]))
     }`,
  )
})

afterAll(() => {
  for (const folder of [project, outside]) rmSync(folder, { recursive: true, force: true })
})

const run = (...args: string[]): string =>
  execFileSync(process.execPath, args, { encoding: 'utf8', cwd: project })

/** Runs a bundle of the program. */
function smoke(bundle: string): unknown {
  return JSON.parse(run(bundle, join(mkdtempSync(join(project, 'ledger-')), 'agent.db')))
}

/** Runs a bundle that loads the package and nothing else: what was thrown. */
const thrown = (bundle: string): unknown => JSON.parse(run(bundle))

const EXTERNAL = ['@nexus/agent-engine', '@nexus/agent-engine/*']

/** Bundles with webpack, which reports its errors as a result. */
async function pack(configuration: Configuration): Promise<void> {
  const compiler = webpack({ mode: 'production', context: project, ...configuration })
  const stats = await new Promise<webpack.Stats | undefined>((resolve, reject) => {
    compiler?.run((error, stats) => (error ? reject(error) : resolve(stats)))
  })
  expect(stats?.compilation.errors.map(({ message }) => message)).toEqual([])
}

test('a bundle of esbuild with the package as an external runs', async () => {
  const outfile = join(project, 'esbuild.mjs')
  await build({
    entryPoints: [join(project, 'smoke.mjs')],
    bundle: true,
    platform: 'node',
    format: 'esm',
    external: EXTERNAL,
    outfile,
  })
  expect(smoke(outfile)).toEqual(printed)
})

test('a bundle of webpack with the package as an external runs', async () => {
  await pack({
    target: 'node',
    entry: './smoke.mjs',
    externals: [/^@nexus\/agent-engine/],
    externalsType: 'commonjs',
    output: { path: project, filename: 'webpack.cjs' },
  })
  expect(smoke(join(project, 'webpack.cjs'))).toEqual(printed)
})

test('a bundle of Rolldown with the package as an external runs', async () => {
  const bundle = await rolldown({
    input: join(project, 'smoke.mjs'),
    platform: 'node',
    external: [/^@nexus\/agent-engine/],
  })
  await bundle.write({ file: join(project, 'rolldown.mjs'), format: 'esm' })
  await bundle.close()
  expect(smoke(join(project, 'rolldown.mjs'))).toEqual(printed)
})

const IN_A_BUNDLE = [
  'addon_not_loaded',
  expect.stringMatching(
    /the code of `@nexus\/agent-engine` is in a bundle, and its binary is not; leave the package out of the bundle/,
  ),
]

test('a bundle of esbuild with the package in it fails with one sentence', async () => {
  const outfile = join(outside, 'esbuild.cjs')
  await build({
    entryPoints: [join(project, 'load.cjs')],
    bundle: true,
    platform: 'node',
    outfile,
    logLevel: 'error',
  })
  expect(thrown(outfile)).toEqual(IN_A_BUNDLE)
})

test('a bundle of webpack with the package in it fails with one sentence', async () => {
  await pack({
    target: 'node',
    entry: './load.cjs',
    output: { path: outside, filename: 'webpack.cjs' },
  })
  expect(thrown(join(outside, 'webpack.cjs'))).toEqual(IN_A_BUNDLE)
})

const IN_A_BROWSER = [
  'addon_not_loaded',
  expect.stringMatching(/^`@nexus\/agent-engine` runs in Node\.js, Bun and Deno, not in a browser/),
]

test('a bundle of esbuild for a browser fails with one sentence', async () => {
  const outfile = join(outside, 'browser.cjs')
  await build({
    entryPoints: [join(project, 'load.cjs')],
    bundle: true,
    platform: 'browser',
    outfile,
    logLevel: 'error',
  })
  expect(thrown(outfile)).toEqual(IN_A_BROWSER)
})

test('a bundle of webpack for a browser fails with one sentence', async () => {
  await pack({
    target: 'web',
    entry: './load.cjs',
    output: { path: outside, filename: 'browser-webpack.cjs' },
  })
  expect(thrown(join(outside, 'browser-webpack.cjs'))).toEqual(IN_A_BROWSER)
})

test.each(['workerd', 'edge-light'])(
  'a bundle for an edge runtime fails with one sentence (%s)',
  async (condition) => {
    const outfile = join(outside, `${condition}.cjs`)
    await build({
      entryPoints: [join(project, 'load.cjs')],
      bundle: true,
      platform: 'neutral',
      format: 'cjs',
      conditions: [condition],
      outfile,
    })
    expect(thrown(outfile)).toEqual(IN_A_BROWSER)
  },
)

test('the subpaths without the addon are in a bundle for a browser as they are', async () => {
  const entry = join(project, 'messages.mjs')
  writeFileSync(
    entry,
    `import { fromUIMessages } from '@nexus/agent-engine/ai-sdk'
     import { WebRequestError } from '@nexus/agent-engine/web'
     const parts = [{ type: 'text', text: 'hi' }]
     console.log(JSON.stringify([fromUIMessages([{ role: 'user', parts }]).length, new WebRequestError([]).name]))`,
  )
  mkdirSync(join(outside, 'web'), { recursive: true })
  const outfile = join(outside, 'web', 'messages.mjs')
  await build({ entryPoints: [entry], bundle: true, platform: 'browser', format: 'esm', outfile })
  expect(run(outfile)).toBe('[1,"WebRequestError"]\n')
})
