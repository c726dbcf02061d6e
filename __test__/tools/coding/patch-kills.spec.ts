// `apply_patch` in a process that is killed between two of its files: the next call of any tool finds the whole patch, or nothing of it. Every step
// of it is killed by the tests of the core. It must never kill anything but its own children.

import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { createCodingTools } from '../../../index.js'
import { folder } from '../../support/cleanup.js'
import { killable } from '../../support/processes/killable.js'
import { canPreload, library } from '../../support/processes/preload.js'

const FILES = Array.from({ length: 20 }, (_, at) => `dir${String(at).padStart(2, '0')}/file`)
const patch = [
  '*** Begin Patch',
  ...FILES.flatMap((name) => [`*** Update File: ${name}`, '@@', '-old', '+new']),
  '*** Add File: deep/made',
  '+made',
  '*** End Patch',
].join('\n')

/** What is in the files: one letter each, and of the new one. */
function state(workspace: string): string {
  const letters = FILES.map((name) => readFileSync(join(workspace, name), 'utf8')[0])
  return letters.join('') + (existsSync(join(workspace, 'deep/made')) ? 'm' : '-')
}

const BEFORE = `${'o'.repeat(20)}-`
const AFTER = `${'n'.repeat(20)}m`

test.skipIf(!canPreload)(
  'a patch of 20 files that a kill interrupts happened whole or not at all',
  { timeout: 60_000 },
  async () => {
    const preload = library('kill-point')
    const seen = new Set<string>()
    let interrupted = 0
    for (let rename = 1; ; rename += 3) {
      const { path } = folder()
      const [workspace, file] = [join(path, 'work'), join(path, 'patch')]
      mkdirSync(workspace)
      for (const name of FILES) {
        mkdirSync(dirname(join(workspace, name)))
        writeFileSync(join(workspace, name), 'old\n')
      }
      writeFileSync(file, patch)
      const child = killable('tools/patch.mjs', [workspace, file], {
        LD_PRELOAD: preload,
        KILL_FILE: workspace,
        KILL_AT: `before rename ${rename}`,
      })
      const wasKilled = (await child.ended) === 'SIGKILL'
      const found = state(workspace)
      if (found !== BEFORE && found !== AFTER) interrupted += 1
      const [ls] = createCodingTools(workspace, { tools: ['ls'] })
      await ls?.execute('1', {})
      const recovered = state(workspace)
      expect([BEFORE, AFTER]).toContain(recovered)
      const directories = FILES.map((name) => dirname(name))
      const made = recovered === AFTER ? ['deep'] : []
      expect(readdirSync(workspace).sort()).toEqual([...made, ...directories].sort())
      seen.add(recovered)
      if (!wasKilled) break
    }
    expect([...seen].sort()).toEqual([AFTER, BEFORE].sort())
    // Otherwise no kill came in the middle.
    expect(interrupted).toBeGreaterThan(2)
  },
)
