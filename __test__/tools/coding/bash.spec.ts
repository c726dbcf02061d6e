// `bash` of createCodingTools alone: streaming, an abort, its options, and what the platform enforces. It must never repeat what the tests
// of the core prove about hostile commands.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import {
  AgentEngine,
  type BashOptions,
  type CodingTool,
  createCodingTools,
} from '../../../index.js'
import { closing } from '../../support/cleanup.js'
import { tempDir } from '../../support/engine.js'
import { isGone } from '../../support/processes/child.js'
import { deferred } from '../../support/tools.js'

let dir: ReturnType<typeof tempDir>
let cwd: string

beforeEach(() => {
  dir = tempDir()
  cwd = join(dir.path, 'work')
  mkdirSync(cwd)
})

afterEach(() => dir.remove())

function shell(bash: BashOptions = {}): CodingTool {
  return createCodingTools(cwd, { tools: ['bash'], bash })[0] as CodingTool
}

const text = async (tool: CodingTool, command: string) => {
  const { content } = await tool.execute('1', { command })
  return (content[0] as { text: string }).text
}

test('a command prints, fails and has a cleaned environment', async () => {
  process.env.SECRET_OF_THE_HOST = 'secret'
  const tool = shell({ env: { GIVEN: 'given' } })
  expect(await text(tool, 'echo out; echo err >&2; echo $SECRET_OF_THE_HOST$GIVEN')).toBe(
    'out\nerr\ngiven\n',
  )
  await expect(text(tool, 'echo failing; exit 3')).rejects.toThrow(
    /^failing\n\n\nCommand exited with code 3$/,
  )
  await expect(tool.execute('2', { command: 'echo x; sleep 60', timeout: 0.1 })).rejects.toThrow(
    /Command timed out after 0.1 seconds$/,
  )
  delete process.env.SECRET_OF_THE_HOST
})

test('a process that clears its environment and leaves the group stays, as capabilities() says', async () => {
  const { descendants } = closing(new AgentEngine()).capabilities()
  const escaping =
    "env -i setsid sh -c 'echo $$ > pid.tmp; mv pid.tmp pid; exec sleep 1000' > /dev/null 2>&1 &" +
    ' while [ ! -s pid ]; do :; done; echo started'
  expect(await text(shell(), escaping)).toBe('started\n')
  const pid = Number(readFileSync(join(cwd, 'pid'), 'utf8'))
  try {
    expect(descendants).toBe('environment')
    expect(readFileSync(`/proc/${pid}/cmdline`, 'utf8')).toContain('sleep')
  } finally {
    process.kill(pid, 'SIGKILL')
  }
  // The same process with its environment is ended.
  const found = escaping.replace('env -i ', '').replaceAll('pid', 'pid2')
  expect(await text(shell(), found)).toContain('A process that it left running was ended')
  const ended = Number(readFileSync(join(cwd, 'pid2'), 'utf8'))
  expect(isGone(ended)).toBe(true)
})

test('an `onUpdate` that throws or rejects is one warning, and hinders neither its call nor another', async () => {
  const warnings: string[] = []
  const collect = (warning: Error & { code?: string }) => {
    if (warning.code === 'AGENT_ENGINE_CALLBACK') warnings.push(warning.message)
  }
  process.on('warning', collect)
  const command = 'echo 1; until [ -e go ]; do :; done; echo 2'
  const tool = shell()
  const called = [deferred<void>(), deferred<void>(), deferred<void>()]
  const calls = called.map(({ resolve }, at) =>
    tool.execute(`${at}`, { command }, undefined, () => {
      resolve()
      if (at === 0) throw new Error('thrown')
      return at === 1 ? Promise.reject(new Error('rejected')) : undefined
    }),
  )
  await Promise.all(called.map(({ promise }) => promise))
  writeFileSync(join(cwd, 'go'), '')
  const texts = (await Promise.all(calls)).map(
    ({ content }) => (content[0] as { text: string }).text,
  )
  expect(texts).toEqual(['1\n2\n', '1\n2\n', '1\n2\n'])
  await new Promise(setImmediate)
  process.off('warning', collect)
  expect(warnings.sort()).toEqual([
    '`onUpdate` of a coding tool threw: rejected',
    '`onUpdate` of a coding tool threw: thrown',
  ])
})

test('an abort ends a command that waits for others to end', async () => {
  const tool = shell()
  const others = new AbortController()
  const { promise: full, resolve } = deferred<void>()
  let running = 0
  const command = 'echo started; sleep 1000'
  const held = Array.from({ length: 16 }, (_, at) => {
    const call = tool.execute(`${at}`, { command }, others.signal, () => {
      running += 1
      if (running === 16) resolve()
    })
    return call.catch((error: Error) => error.message)
  })
  await full
  const controller = new AbortController()
  const waiting = tool.execute('17', { command: 'echo x > ran' }, controller.signal)
  controller.abort()
  await expect(waiting).rejects.toThrow(/aborted/)
  others.abort()
  expect(new Set(await Promise.all(held))).toEqual(new Set(['started\n\n\nCommand aborted']))
  expect(existsSync(join(cwd, 'ran'))).toBe(false)
})

test('what is printed comes by onUpdate, and an abort rejects when nothing is left', async () => {
  const tool = shell()
  const partials: unknown[] = []
  const controller = new AbortController()
  const command = 'echo $$ > pid; echo started; sleep 1000'
  const call = tool.execute('1', { command }, controller.signal, (partial) => {
    partials.push(partial)
    controller.abort()
  })
  await expect(call).rejects.toThrow(/^started\n\n\nCommand aborted$/)
  expect(partials).toEqual([{ content: [{ type: 'text', text: 'started\n' }] }])
  expect(existsSync(`/proc/${readFileSync(join(cwd, 'pid'), 'utf8').trim()}`)).toBe(false)
})

test('capabilities say what the kernel enforces, and the sandbox enforces it', async () => {
  const engine = new AgentEngine()
  const { codingTools, sandbox, descendants, limits } = engine.capabilities()
  await engine.close()
  expect({ codingTools, descendants }).toEqual({ codingTools: true, descendants: 'environment' })
  expect(limits).toEqual({ perProcess: true, processes: true, together: false })
  expect(sandbox).toEqual({
    landlock: sandbox.landlock,
    files: sandbox.landlock >= 3,
    tcp: sandbox.landlock >= 4,
    signals: sandbox.landlock >= 6,
    unixSockets: false,
    udp: false,
  })
  writeFileSync(join(dir.path, 'outside'), 'outside')
  const cat = `cat ${join(dir.path, 'outside')}`
  expect(await text(shell({ sandbox: 'off' }), cat)).toBe('outside')
  const restricted = text(shell(), cat).then(
    () => false,
    () => true,
  )
  expect(await restricted).toBe(sandbox.files)
  const required = () => shell({ sandbox: 'required' })
  if (sandbox.files && sandbox.tcp) await expect(text(required(), cat)).rejects.toThrow('denied')
  else expect(required).toThrow('the sandbox is required')
})

test('options that cannot be used are refused with their path', () => {
  const refused = (bash: unknown, protect?: string[]) => {
    try {
      createCodingTools(cwd, { bash: bash as BashOptions, ...(protect && { protect }) })
    } catch (error) {
      return (error as Error).message
    }
  }
  const anchor = '(docs/guide/errors.md#invalid_options)'
  const messages = [
    refused(7),
    refused({ sandbox: 'strict' }),
    refused({ background: true }),
    refused({ network: 1 }),
    refused({ timeoutMs: 0 }),
    refused({ env: { 'A B': 'x' } }),
    refused({ env: { A: 1 } }),
    refused({ limits: { cpuSeconds: 0 } }),
    refused({ limits: { memory: 1 } }),
    refused({ shell: 'zsh' }),
    refused({}, [join(cwd, 'agent.db')]),
  ]
  expect(messages.map((message) => message?.replace(` ${anchor}`, ''))).toEqual([
    '`options.bash`: is not an object',
    '`options.bash.sandbox`: is not one of preferred, required, off',
    '`options.bash.background`: is not one of end, keep',
    '`options.bash.network`: is not true or false',
    '`options.bash.timeoutMs`: is not a whole number of milliseconds above 0',
    '`options.bash.env.A B`: is not the name of a variable',
    '`options.bash.env.A`: is not a string without NUL characters',
    '`options.bash.limits.cpuSeconds`: is not a whole number above 0',
    '`options.bash.limits.memory`: is unknown; known are cpuSeconds, fileBytes, memoryBytes, openFiles, processes',
    '`options.bash.shell`: is unknown; known are sandbox, network, timeoutMs, env, background, limits',
    `\`protect[0]\`: \`${join(cwd, 'agent.db')}\` is in the workspace, where \`bash\` could change it; move it, or leave \`bash\` out of \`tools\``,
  ])
  for (const message of messages) expect(message).toContain(anchor)
})

test('each process of a command has the limits of the options', async () => {
  const limits = { cpuSeconds: 9, openFiles: 40 }
  expect(await text(shell({ limits }), 'ulimit -t; ulimit -n; ulimit -c')).toBe('9\n40\n0\n')
})

test('a command that starts processes without end is ended with all of them', async () => {
  const bash = shell({ limits: { processes: 100 } })
  await expect(text(bash, 'grow() { grow | grow & wait; }; grow')).rejects.toThrow(
    /Command was ended: it ran more than 100 processes at once$/,
  )
  expect(await text(bash, 'echo goes on')).toBe('goes on\n')
})
