// Proves that no imported file leaves a ledger that `verify()` rejects: lines of valid exports are changed, and each file is
// refused with a stable code, or imported with its problems reported by their lines. The full proof is `npm run proof:imports`.
// It must never accept an error without a code.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { AgentEngine } from '../../../index.js'
import { folder } from '../../support/cleanup.js'
import { tempDir } from '../../support/engine.js'
import { firstVersion } from '../../support/ledger/everything.js'
import { random } from '../../support/values/random.js'

const MUTATIONS = Number(process.env.MUTATIONS ?? 50)
const SEED = Number(process.env.MUTATIONS_SEED ?? 1)

type Format = 'ledger' | 'pi' | 'myclaw'
type Next = (under: number) => number

const files: { format: Format; lines: string[] }[] = []

beforeAll(async () => {
  const dir = tempDir()
  const path = join(dir.path, 'a.db')
  firstVersion(path)
  const engine = new AgentEngine({ ledger: { path } })
  const sessions: [Format, string | undefined][] = [
    ['ledger', undefined],
    ['pi', 'agent:alice:main'],
    ['pi', 'agent:bob:main'],
    ['myclaw', 'agent:alice:main'],
    ['myclaw', 'agent:bob:main'],
  ]
  for (const [number, [format, session]] of sessions.entries()) {
    const to = join(dir.path, `${number}.jsonl`)
    await engine.ledger.export(to, session === undefined ? { format } : { format, session })
    // Short texts are enough.
    const text = readFileSync(to, 'utf8').replaceAll(/(the same words again and again, ){3,}/g, '…')
    files.push({ format, lines: text.trimEnd().split('\n') })
  }
  await engine.close()
  return () => dir.remove()
})

const odd = [
  null,
  '',
  'x',
  -1,
  0,
  1,
  2 ** 53,
  1e300,
  true,
  [],
  {},
  '\u0000',
  '9223372036854775807',
  1.5,
]

/** Changes one part of a value. */
function changed(value: unknown, next: Next, ids: string[]): unknown {
  if (value !== null && typeof value === 'object' && next(4) > 0) {
    const entries = Object.entries(value)
    const at = next(Math.max(entries.length, 1))
    const entry = entries[at]
    if (entry !== undefined) {
      const how = next(8)
      if (how === 0) entries.splice(at, 1)
      else if (how === 1) entries.push([`${entry[0]}x`, entry[1]])
      else entry[1] = changed(entry[1], next, ids)
      return Array.isArray(value) ? entries.map(([, item]) => item) : Object.fromEntries(entries)
    }
  }
  if (typeof value === 'string' && next(2) === 0) return ids[next(ids.length)]
  return odd[next(odd.length)]
}

/** Changes one part of a file. */
function mutated(lines: string[], next: Next): string {
  const copy = [...lines]
  const at = next(copy.length)
  const line = copy[at] ?? ''
  const ids = [...new Set(lines.join('\n').match(/"[0-9A-Za-z:_-]{4,40}"/g))].map((id) =>
    id.slice(1, -1),
  )
  switch (next(8)) {
    case 0:
      copy.splice(at, 1)
      break
    case 1:
      copy.splice(next(copy.length), 0, line)
      break
    case 2:
      copy[at] = copy[next(copy.length)] ?? ''
      break
    case 3: {
      const byte = next(Math.max(line.length, 1))
      copy[at] = line.slice(0, byte) + String.fromCharCode(32 + next(95)) + line.slice(byte + 1)
      break
    }
    case 4:
      copy[at] = line.slice(0, next(line.length + 1))
      break
    default:
      copy[at] = JSON.stringify(changed(JSON.parse(line), next, ids))
  }
  return `${copy.join('\n')}\n`
}

/** Turns that no version of the engine writes: the change, and the reported problem. */
const impossible: [string, (turn: any) => void, string][] = [
  [
    'names a question it does not have',
    (turn) => turn.queryMessageIds.push('nobody'),
    'lost_reference',
  ],
  [
    'names a question as its answer',
    (turn) => {
      turn.responseMessageId = turn.queryMessageIds[0]
    },
    'lost_reference',
  ],
  [
    'still streams',
    (turn) => {
      turn.status = 'streaming'
    },
    'refused',
  ],
  [
    'waits',
    (turn) => {
      turn.status = 'pending'
    },
    'refused',
  ],
  [
    'has no end',
    (turn) => {
      turn.completedAt = null
    },
    'refused',
  ],
  [
    'ended for no reason',
    (turn) => {
      turn.stopReason = null
    },
    'refused',
  ],
  [
    'is a compaction without its summary',
    (turn) => {
      turn.turnType = 'compaction'
      turn.compaction = files
        .flatMap(({ lines }) => lines)
        .map((line) => JSON.parse(line).compaction)
        .find(Boolean)
    },
    'refused',
  ],
]

test.each(impossible)(
  'a turn that %s is reported by its line, and the ledger is whole',
  async (_name, change, code) => {
    const { path, file } = folder()
    const lines = [...(files[0]?.lines ?? [])]
    const at = lines.findIndex((line) => {
      const { type, status, responseMessageId, turnType } = JSON.parse(line)
      return type === 'turn' && turnType === 'normal' && status === 'completed' && responseMessageId
    })
    const turn = JSON.parse(lines[at] ?? '')
    change(turn)
    lines[at] = JSON.stringify(turn)
    const from = join(path, 'changed.jsonl')
    writeFileSync(from, `${lines.join('\n')}\n`)
    const engine = new AgentEngine({ ledger: { path: file, synchronous: 'normal' } })
    const { problems } = await engine.ledger.import(from)
    expect(problems).toContainEqual(expect.objectContaining({ code, line: at + 1 }))
    expect((await engine.ledger.verify()).problems).toEqual([])
    await engine.close()
  },
)

test('a session without a head, but with a log of one, is reported by its line, and the ledger is whole', async () => {
  const { path, file } = folder()
  const lines = [...(files[0]?.lines ?? [])]
  const at = lines.findIndex(
    (line) => JSON.parse(line).type === 'session' && JSON.parse(line).threadId,
  )
  const session = JSON.parse(lines[at] ?? '')
  lines[at] = JSON.stringify({ ...session, threadId: null })
  const from = join(path, 'changed.jsonl')
  writeFileSync(from, `${lines.join('\n')}\n`)
  const engine = new AgentEngine({ ledger: { path: file, synchronous: 'normal' } })
  const { problems } = await engine.ledger.import(from)
  expect(problems).toContainEqual(expect.objectContaining({ code: 'lost_reference', line: at + 1 }))
  expect((await engine.ledger.verify()).problems).toEqual([])
  expect((await engine.ledger.session(session.label))?.threadId).toBe(session.threadId)
  await engine.close()
})

test(`${MUTATIONS} changed files are imported or refused, and the ledger is whole after each`, {
  timeout: 3_600_000,
}, async () => {
  const next = random(SEED)
  const counts: Record<string, number> = {}
  for (let number = 0; number < MUTATIONS; number++) {
    const { format, lines } = files[number % files.length] as (typeof files)[number]
    const text = mutated(lines, next)
    const { path, file } = folder()
    const from = join(path, 'changed.jsonl')
    writeFileSync(from, text)
    const engine = new AgentEngine({ ledger: { path: file, synchronous: 'normal' } })
    const outcome = await engine.ledger.import(from, { format }).then(
      ({ problems }) => {
        const codes = problems.map(({ code }) => code)
        return codes.length === 0 ? 'taken' : `taken, ${codes[0]}`
      },
      (error: { name: string; code: string }) => {
        expect(error).toMatchObject({ name: 'AgentEngineError' })
        return `refused, ${error.code}`
      },
    )
    const { problems } = await engine.ledger.verify()
    await engine.close()
    if (problems.length > 0) writeFileSync(join(path, '..', `changed-${number}.jsonl`), text)
    expect({ number, format, outcome, problems }).toMatchObject({ problems: [] })
    expect(outcome).toMatch(/^taken|^refused, (invalid_import|storage_constraint)$/)
    counts[outcome] = (counts[outcome] ?? 0) + 1
  }
  console.log(JSON.stringify(counts))
})
