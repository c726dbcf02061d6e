// The small form of `npm run proof:faces`: some specs of pi's interfaces and of the command line, and the type tests, on the files of the packed package. It must
// never build.

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const script = fileURLToPath(new URL('../../scripts/runtimes/faces.mjs', import.meta.url))
const specs = ['pi/exports', 'pi/ai/streams', 'pi/agent/fixed', 'pi/session/manager', 'cli/cli']

test('the packed package passes the type tests and some specs of the faces', async () => {
  const paths = specs.map((name) => `__test__/${name}.spec.ts`)
  const { stdout } = await promisify(execFile)(process.execPath, [script, '--one', ...paths])
  expect(stdout).toContain('the types of the package fit those of pi')
  expect(stdout).toMatch(/Test Files .*5 passed/)
})
