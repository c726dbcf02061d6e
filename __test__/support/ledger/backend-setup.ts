// What the specs of the vitest project `postgres` begin with: their ledgers are on the server, what is about the file is skipped, and
// what the server has not got yet must fail.

import './on-postgres.js'
import { relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeEach } from 'vitest'
import { testsOfTheFile, waiting } from './backends.mjs'

const specs = fileURLToPath(new URL('../..', import.meta.url))

beforeEach(({ task, skip }) => {
  const spec = relative(specs, task.file.filepath).split(sep).join('/').replace('.spec.ts', '')
  const names = [task.name]
  for (let suite = task.suite; suite !== undefined; suite = suite.suite) names.unshift(suite.name)
  const name = names.filter(Boolean).join(' > ')
  const reason = testsOfTheFile[spec]?.[name]
  if (reason !== undefined) skip(reason)
  if (waiting[spec]?.[name] !== undefined) Object.assign(task, { fails: true })
})
