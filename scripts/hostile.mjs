// Owns the long run of `__test__/hostile.spec.ts`: 20,000 cases, or as many as HOSTILE_CASES says, from the seed HOSTILE_SEED.
// It must never build anything: the addon in the project's root is tested.

import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
const { status, error } = spawnSync(
  process.execPath,
  [vitest, 'run', '--project', 'addon', '__test__/hostile.spec.ts'],
  {
    cwd: root,
    env: { HOSTILE_CASES: '20000', ...process.env },
    stdio: 'inherit',
  },
)
if (error) throw error
process.exit(status ?? 1)
