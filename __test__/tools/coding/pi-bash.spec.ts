// `bash` beside that of pi-coding-agent 0.54.0: the same commands in the same folder give the same results. Where they differ on purpose, the
// difference and its reason are in the table below. It must never imitate pi: the published package is called.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createBashTool } from '@mariozechner/pi-coding-agent'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createCodingTools } from '../../../index.js'

let cwd: string

beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), 'bash-pi-'))
  writeFileSync(join(cwd, 'file.txt'), 'text\n')
})

afterAll(() => rmSync(cwd, { recursive: true, force: true }))

type Tool = { execute(id: string, params: never): Promise<unknown> }

async function outcome(tool: Tool | undefined, params: object): Promise<unknown> {
  try {
    return await tool?.execute('1', params as never)
  } catch (error) {
    return { error: (error as Error).message }
  }
}

const both = async (params: object) => ({
  ours: await outcome(createCodingTools(cwd, { tools: ['bash'] })[0], params),
  pi: await outcome(createBashTool(cwd), params),
})

test.each([
  { command: 'cat file.txt; ls' },
  { command: 'printf "no newline"' },
  { command: 'true' },
  { command: 'false' },
  { command: 'echo partly; exit 7' },
  { command: 'no-such-command-anywhere 2> /dev/null' },
  { command: 'cat' },
  { command: 'seq 1 500' },
  { command: 'printf "grüße 😀\\r\\n"' },
  { command: 'echo before; sleep 30', timeout: 0.5 },
  { command: 'sleep 30', timeout: 0.5 },
  { command: 'pwd', timeout: 30 },
])('as pi: $command', async (params) => {
  const { ours, pi } = await both(params)
  expect(ours).toEqual(pi)
})

const text = (value: string) => ({ content: [{ type: 'text', text: value }], details: undefined })

/** What differs, why, and both outcomes; `*` where pi's depends on the machine. */
const DIFFERENCES: { why: string; command: string; ours: unknown; pi: unknown }[] = [
  {
    why: 'output and errors are in the order in which they were printed',
    command: 'echo out; echo err >&2; echo out',
    ours: text('out\nerr\nout\n'),
    pi: '*',
  },
  {
    why: 'a shell that a signal ends has failed',
    command: 'echo x; kill -9 $$',
    ours: { error: 'x\n\n\nCommand was ended by signal 9' },
    pi: text('x\n'),
  },
  {
    why: 'what a command leaves running is ended, and does not hold up the result',
    command: 'sleep 2 & echo started',
    ours: text('started\n\n\n[A process that it left running was ended]'),
    pi: text('started\n'),
  },
  {
    why: 'files that a command makes are those of their owner',
    command: 'umask',
    ours: text('0077\n'),
    pi: '*',
  },
  {
    why: 'the environment of the host has its keys',
    command: 'env | grep -c VITEST',
    ours: { error: '0\n\n\nCommand exited with code 1' },
    pi: '*',
  },
]

test.each(DIFFERENCES)('differs: $why', async ({ command, ours, pi }) => {
  const found = await both({ command })
  expect(found.ours).toEqual(ours)
  if (pi === '*') return
  expect(found.pi).toEqual(pi)
  expect(found.ours).not.toEqual(found.pi)
})

test('a long output has its beginning and its end, where pi has its end', async () => {
  const { ours, pi } = await both({ command: 'seq 1 60000' })
  const [first, last] = [ours, pi].map(
    (result) => (result as { content: { text: string }[] }).content[0]?.text as string,
  ) as [string, string]
  expect(first.startsWith('1\n2\n') && first.endsWith('\n59999\n60000\n')).toBe(true)
  expect(first).toContain(' left out here. Full output: ')
  expect(last.startsWith('1\n2\n')).toBe(false)
  expect(last).toContain('Full output: ')
})
