// The program `nexus-agent` in pipes and scripts: what each command prints, its JSON, and its exit code. It must never be in a terminal here.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { AgentEngine } from '../../index.js'
import { closing } from '../support/cleanup.js'
import { anthropic } from '../support/servers/anthropic.js'
import { type Handler, sse, sseThenHold, status } from '../support/servers/server.js'
import { home, jsonLines } from './program.js'

const says = (text: string): Handler => sse(anthropic.answer(text, { input: 4000 }))
const ULID = /[0-9A-HJKMNP-TV-Z]{26}/

/** The ledger that a home's commands use, closed after the test. */
const ledgerOf = (state: string) =>
  closing(new AgentEngine({ ledger: { path: join(state, 'agent.db') } }))

test('`run` prints the answer and nothing else, without colours', async () => {
  const call = sse(
    anthropic.start(),
    anthropic.text(0, 'Let me see.'),
    anthropic.toolUse(1, 't1', 'bash', { command: 'true' }),
    anthropic.end('tool_use'),
  )
  const { cli, sent } = await home(call, says('It is \u001b[1mdone\u001b[0m.'))
  expect(await cli('run', 'do', 'it')).toEqual({
    code: 0,
    stdout: 'It is \u001b[1mdone\u001b[0m.\n',
    stderr: '',
  })
  expect(sent(0)).toBe('do it')
})

test('`run` reads its message from a pipe', async () => {
  const { piped, sent } = await home(says('ok'))
  expect(await piped('line one\nline two\n', 'run')).toMatchObject({ code: 0, stdout: 'ok\n' })
  expect(await piped('dashed', 'run', '-')).toMatchObject({ code: 0 })
  expect([sent(0), sent(1)]).toEqual(['line one\nline two', 'dashed'])
})

test('`run --json` prints each event and then the result, a line each', async () => {
  const { cli } = await home(says('Hello.'))
  const { code, stdout, stderr } = await cli('run', '--json', 'hi', '--session', 's')
  expect([code, stderr]).toEqual([0, ''])
  const lines = jsonLines(stdout)
  expect(lines.map(({ type }) => type)).toEqual([
    'stream_start',
    'token',
    'usage',
    'stream_end',
    'result',
  ])
  expect(lines.slice(0, -1).map(({ seq }) => seq)).toEqual([1, 2, 3, 4])
  expect(lines.at(-1)?.result).toMatchObject({ text: 'Hello.', stopReason: 'end_turn' })
})

test('a failed run has code 1 and its reason on the standard error', async () => {
  const body = { error: { type: 'invalid_request_error', message: 'that is wrong' } }
  const { cli } = await home(status(400, body))
  const { code, stdout, stderr } = await cli('run', 'hi')
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(/^nexus-agent: .*that is wrong.*\n$/)
})

test.each([
  ['SIGINT', 130],
  ['SIGHUP', 129],
  ['SIGTERM', 143],
] as const)('%s ends a run with code %i', async (signal, expected) => {
  const { start, state } = await home(
    sseThenHold(
      anthropic.start(),
      anthropic.blockStart(0, { type: 'text', text: '' }),
      anthropic.delta(0, { type: 'text_delta', text: 'Hel' }),
    ),
  )
  const { child, ended } = start(['run', '--json', 'hi'])
  child.stdin?.end()
  child.stdout?.on('data', (text) => {
    if (String(text).includes('"token"')) child.kill(signal)
  })
  const { code, stdout } = await ended
  expect(code).toBe(expected)
  expect(jsonLines(stdout).at(-1)?.result).toMatchObject({ text: 'Hel', stopReason: 'aborted' })
  const { items } = await ledgerOf(state).ledger.turns()
  expect(items.map(({ status }) => status)).toEqual(['aborted'])
})

test('a reader that leaves ends the program with code 141, and the run is aborted', async () => {
  const { start, state } = await home(
    sseThenHold(anthropic.start(), anthropic.blockStart(0, { type: 'text', text: '' })),
  )
  const { child, ended } = start(['run', '--json', 'hi'])
  child.stdin?.end()
  child.stdout?.destroy()
  expect((await ended).code).toBe(141)
  const { items } = await ledgerOf(state).ledger.turns()
  expect(items.map(({ status }) => status)).toEqual(['aborted'])
})

test('a chat in a pipe answers each line', async () => {
  const { piped, server } = await home(says('one'), says('two'))
  expect(await piped('a\n\nb\n', 'chat', '-s', 'talk')).toEqual({
    code: 0,
    stdout: 'one\ntwo\n',
    stderr: '',
  })
  expect(server.seen[1]?.body.messages).toHaveLength(3)
})

test('sessions, usage, tree, search and show print tables, and the same as JSON', async () => {
  const call = sse(
    anthropic.start({ input: 4000 }),
    anthropic.toolUse(0, 't1', 'bash', { command: 'echo found' }),
    anthropic.end('tool_use'),
  )
  const { cli, state } = await home(call, says('The invoice is paid.'), says('ok'))
  await cli('run', 'Where is the invoice?')
  await cli('run', 'hi', '-s', 'other')
  const { items } = await ledgerOf(state).ledger.sessions()
  const head = items.find(({ label }) => label === 'main')?.threadId ?? ''
  const first = async (...args: string[]) => {
    const [text, json] = [await cli(...args), await cli(...args, '--json')]
    expect([text.code, text.stderr, json.code, json.stderr]).toEqual([0, '', 0, ''])
    return { text: text.stdout, lines: jsonLines(json.stdout) }
  }
  const sessions = await first('sessions')
  expect(sessions.lines).toEqual(items)
  expect(sessions.text).toMatch(
    new RegExp(`^session .*\\nmain +default .* active +${head}\\nother `),
  )
  const usage = await first('usage', '--by', 'session')
  expect(usage.lines.map(({ key, turns }) => [key, turns])).toEqual([
    ['main', 1],
    ['other', 1],
  ])
  expect(usage.text).toMatch(
    /^session +turns +input .*\nmain +1 +8,000 +0 +10 +8,010 +\$0\.008050\n/,
  )
  const tree = await first('tree')
  expect(tree.lines.map(({ id }) => id)).toContain(head)
  expect(tree.text).toMatch(
    new RegExp(`^${head} .* completed .* 8,010 tokens, 1 call  <- main$`, 'm'),
  )
  const search = await first('search', 'invoice')
  expect(search.lines.map(({ role }) => role)).toEqual(['assistant', 'user'])
  expect(search.text).toContain('  Where is the invoice?\n')
  const show = await first('show', 'main')
  expect(show.lines.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant'])
  expect(show.text).toMatch(
    /\nWhere is the invoice\?\n[\s\S]*\n> bash \{"command":"echo found"\}\n[\s\S]*\nfound\n[\s\S]*\nThe invoice is paid\.\n$/,
  )
  const turn = await first('show', head)
  expect(turn.lines).toEqual([await ledgerOf(state).ledger.turn(head)])
  expect(turn.text).toMatch(new RegExp(`^turn +${head}\\nsession +main\\n`, 'm'))
})

test('a tree shows branches below the turn that they leave', async () => {
  const { cli, state } = await home(says('ok'))
  for (const message of ['a', 'b', 'c']) await cli('run', message)
  const { ledger } = ledgerOf(state)
  const [first, second] = (await ledger.turns()).items
  await ledger.fork(second?.id ?? '', 'branch')
  await cli('run', 'd', '-s', 'branch')
  const { stdout } = await cli('tree', 'branch')
  const [a, b, c, d] = stdout.trimEnd().split('\n')
  expect([a?.slice(0, 26), b?.slice(0, 26)]).toEqual([first?.id, second?.id])
  expect(c).toMatch(/^├─ [0-9A-Z]{26} {2}.*<- main$/)
  expect(d).toMatch(/^└─ [0-9A-Z]{26} {2}.*<- branch$/)
})

test('verify has code 0 for a sound ledger and 4 for a damaged one', async () => {
  const { cli, state } = await home(says('ok'))
  await cli('run', 'hi')
  expect(await cli('verify')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^sound: 1 turn, 2 messages checked/),
  })
  const file = join(state, 'agent.db')
  const bytes = readFileSync(file)
  const at = bytes.lastIndexOf('claude-haiku-4-5')
  bytes.write('C', at)
  writeFileSync(file, bytes)
  const { code, stdout } = await cli('verify')
  expect(code).toBe(4)
  expect(stdout).toMatch(/\ndamaged: /)
})

test('backup, export and import move a ledger, and overwrite nothing', async () => {
  const { cli, path } = await home(says('ok'))
  await cli('run', 'hi')
  const file = (name: string) => join(path, name)
  expect(await cli('backup', file('b.db'))).toMatchObject({ code: 0 })
  expect(await cli('backup', file('b.db'))).toMatchObject({ code: 1 })
  expect(await cli('export', file('e.jsonl'))).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/e\.jsonl: 1 session, 1 turn, /),
  })
  expect(await cli('import', file('e.jsonl'), '--ledger', file('new/other.db'))).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/e\.jsonl: main \(1 turn, 2 messages\)\n$/),
  })
  const [shown, backed] = [
    await cli('show', 'main', '--ledger', file('new/other.db')),
    await cli('show', 'main', '--ledger', file('b.db')),
  ]
  expect(shown).toEqual(backed)
})

test('import finds the format of a file, and imports a folder', async () => {
  const { cli, path } = await home()
  const folder = join(path, 'old')
  mkdirSync(folder)
  const write = (name: string, lines: object[]) =>
    writeFileSync(join(folder, name), lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  const talk = [
    { role: 'user', content: 'hello', ts: 1 },
    { role: 'assistant', content: 'hi', ts: 2 },
  ]
  write('a.jsonl', [{ type: 'session', sessionKey: 'agent:main:a', createdAt: 1 }, ...talk])
  write('b.jsonl', talk)
  write('c.jsonl', [
    { type: 'session', version: 3, id: 'c', timestamp: '2026-01-01T00:00:00Z', cwd: '/' },
    {
      type: 'message',
      id: '1',
      parentId: null,
      timestamp: '2026-01-01T00:00:00Z',
      message: { role: 'user', content: 'hello', timestamp: 1 },
    },
  ])
  const { code, stdout } = await cli('import', folder, '--json')
  expect(jsonLines(stdout).map(({ sessions, problems }) => [sessions, problems])).toEqual([
    [['agent:main:a'], []],
    [['myclaw:b'], []],
    [['pi:c'], []],
  ])
  expect(code).toBe(0)
})

test('a damaged line of an import has code 4 and its number', async () => {
  const { cli, path } = await home()
  const file = join(path, 'a.jsonl')
  writeFileSync(file, '{"role":"user","content":"hi"}\n{"role":\n')
  expect(await cli('import', file)).toMatchObject({
    code: 4,
    stdout: expect.stringMatching(/\n {2}line 2: /),
  })
})

test('compact replaces old messages of a session by a summary', async () => {
  const long = 'word '.repeat(2000)
  const answers = Array.from({ length: 8 }, () => says(long))
  const { cli } = await home(...answers, says('They talked.'))
  for (const _ of answers) await cli('run', 'go on')
  expect(await cli('compact', 'main')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^\d turns summarised: [\d,]+ -> [\d,]+ tokens\n$/),
  })
  expect((await cli('show', 'main')).stdout).toContain('They talked.')
})

test('recover lists interrupted turns, discards them, and resumes them', async () => {
  const holding = sseThenHold(
    anthropic.start(),
    anthropic.blockStart(0, { type: 'text', text: '' }),
    anthropic.delta(0, { type: 'text_delta', text: 'Hel' }),
  )
  const { start, cli } = await home(holding, holding, says('Whole.'))
  expect(await cli('recover', '--ledger', 'nowhere.db')).toMatchObject({ code: 3 })
  for (const session of ['a', 'b']) {
    const { child, ended } = start(['run', '--json', 'hi', '-s', session])
    child.stdin?.end()
    child.stdout?.on('data', (text) => {
      if (String(text).includes('"token"')) child.kill('SIGKILL')
    })
    await ended
  }
  const [a, b] = jsonLines((await cli('recover', '--json')).stdout)
  expect([a?.sessionLabel, b?.sessionLabel]).toEqual(['a', 'b'])
  expect((await cli('recover')).stdout).toMatch(/ a .*can be resumed\n.* b .*can be resumed\n$/)
  expect(await cli('recover', '--discard', a?.turnId)).toMatchObject({
    code: 0,
    stdout: `${a?.turnId}  discarded\n`,
  })
  expect(await cli('recover', '--resume')).toMatchObject({ code: 0, stdout: 'Whole.\n' })
  expect(await cli('recover')).toMatchObject({ code: 0, stdout: 'no turn is interrupted\n' })
  expect(await cli('recover', '--discard', a?.turnId)).toMatchObject({ code: 3 })
})

test('SIGTERM ends a resumed run after its commit, and leaves the others interrupted', async () => {
  const holding = sseThenHold(
    anthropic.start(),
    anthropic.blockStart(0, { type: 'text', text: '' }),
    anthropic.delta(0, { type: 'text_delta', text: 'Hel' }),
  )
  const { start, state } = await home(holding, holding, holding)
  for (const session of ['a', 'b']) {
    const { child, ended } = start(['run', '--json', 'hi', '-s', session])
    child.stdin?.end()
    child.stdout?.on('data', (text) => {
      if (String(text).includes('"token"')) child.kill('SIGKILL')
    })
    await ended
  }
  const { child, ended } = start(['recover', '--resume', '--json'])
  child.stdin?.end()
  child.stdout?.on('data', (text) => {
    if (String(text).includes('"token"')) child.kill('SIGTERM')
  })
  const { code, stdout } = await ended
  expect(code).toBe(143)
  expect(jsonLines(stdout).at(-1)?.result).toMatchObject({ stopReason: 'aborted' })
  const engine = ledgerOf(state)
  const { items } = await engine.ledger.turns()
  expect(items.map(({ status, sessionLabel }) => [status, sessionLabel])).toEqual([
    ['aborted', 'a'],
  ])
  expect((await engine.recover()).map(({ sessionLabel }) => sessionLabel)).toEqual(['b'])
})

test('a server that cannot be reached, and a URL of another kind, are refused without their password', async () => {
  const { cli, path } = await home()
  const secret = 'canary-p/w#of@the-url'
  for (const command of ['sessions', 'verify', 'run hi', 'doctor']) {
    for (const scheme of ['postgres', 'postgresql', 'mysql']) {
      const url = `${scheme}://user:${secret}@127.0.0.1:1/agents?password=${secret}&connect_timeout=1`
      const { code, stdout, stderr } = await cli(...command.split(' '), '--ledger', url)
      expect(code).not.toBe(0)
      expect(stdout + stderr).not.toContain('canary')
      expect(stdout + stderr).toMatch(scheme === 'mysql' ? /`mysql:\/\/…` is no ledger/ : /./)
    }
  }
  expect(existsSync(join(path, 'postgres:'))).toBe(false)
})

test('doctor finds everything in order, and prints no key', async () => {
  const { cli } = await home()
  const { code, stdout } = await cli('doctor')
  expect(code).toBe(0)
  expect(stdout).toMatch(/^ok +Node\.js +v\d/)
  expect(stdout).toMatch(/^ok +keys +config: primary$/m)
  expect(stdout).toMatch(/^ok +model +anthropic claude-haiku-4-5, a window of 200,000 tokens$/m)
  expect(stdout).toMatch(/^ok +ledger +.*agent\.db, created by the first run, SQLite 3\.\d+/m)
  expect(stdout).toMatch(/\nAn agent can run\.\n$/)
  expect(stdout).not.toContain('canary-key')
})

test('doctor says what is missing and what to do', async () => {
  const { cli, start, state } = await home()
  writeFileSync(join(state, 'myclaw.json'), '{}')
  const bare = await cli('doctor')
  expect(bare.code).toBe(4)
  expect(bare.stdout).toMatch(/^missing +keys +none\n +set ANTHROPIC_API_KEY, /m)
  expect(bare.stdout).toMatch(/\nAn agent cannot run: config, keys, model\.\n$/)
  const keyed = start(['doctor', '--json'], {
    GROQ_API_KEY: 'canary-groq',
    ANTHROPIC_API_KEY: 'canary-a',
  })
  keyed.child.stdin?.end()
  const { code, stdout } = await keyed.ended
  const found = Object.fromEntries(
    jsonLines(stdout).map(({ name, state, found }) => [name, [state, found]]),
  )
  expect(code).toBe(0)
  expect(found.keys).toEqual(['ok', 'environment: anthropic, groq'])
  expect(found.model?.[1]).toMatch(/^anthropic claude-sonnet/)
  expect(stdout).not.toContain('canary')
  writeFileSync(join(state, 'myclaw.json'), '{ agent: { maxIterations: 0 }')
  expect((await cli('doctor')).stdout).toMatch(/^missing +config +.*is no JSON5: line 1/m)
  expect(existsSync(join(state, 'agent.db'))).toBe(false)
})

test('doctor asks for the window of a model that the catalogue does not have, unless the config has it', async () => {
  const { cli, state } = await home()
  const provider = { name: 'ollama', model: 'house-model' }
  const config = (agent: object) =>
    writeFileSync(join(state, 'myclaw.json'), JSON.stringify({ provider, agent }))
  config({})
  expect((await cli('doctor')).stdout).toMatch(
    /^note +model .*\n +set `agent\.contextWindow` to its window/m,
  )
  config({ contextWindow: 40_000 })
  expect((await cli('doctor')).stdout).toMatch(
    /^ok +model +ollama house-model, which the catalogue does not have: a window of 40,000 tokens, prices are unknown$/m,
  )
})

test('options name the ledger, the config, the provider, the model and the address', async () => {
  const { cli, server, path } = await home(says('ok'))
  const config = join(path, 'other.json5')
  writeFileSync(config, "{ provider: { authProfiles: [{ id: 'x', apiKey: 'canary-key-2' }] } }")
  const ledger = join(path, 'other.db')
  const options = ['--config', config, '--ledger', ledger, '--base-url', server.url]
  const model = ['--provider', 'anthropic', '--model', 'claude-opus-4-5']
  expect(await cli(...options, 'run', 'hi', ...model)).toMatchObject({ code: 0, stdout: 'ok\n' })
  expect(server.seen[0]?.headers['x-api-key']).toBe('canary-key-2')
  expect(server.seen[0]?.body.model).toBe('claude-opus-4-5')
  expect((await cli('sessions', '--ledger', ledger)).stdout).toMatch(/\nmain /)
})

test.each([
  [['fly'], 2, /there is no command `fly`; see nexus-agent --help/],
  [['run', '--fly'], 2, /Unknown option `--fly`; see nexus-agent run --help/],
  [['show'], 2, /`show` takes <session \| turn>/],
  [['sessions', 'x'], 2, /`sessions` takes no operands/],
  [['sessions', '--limit', 'x'], 2, /--limit is not a number/],
  [['usage', '--by', 'nothing'], 2, /`filter\.by`/],
  [['usage', '--since', 'soon'], 2, /--since is no date/],
  [['export', 'x', '--format', 'csv'], 2, /--format is not one of ledger, pi, myclaw/],
  [['recover', '--resume', '--discard'], 2, /exclude each other/],
  [['run'], 2, /the standard input has no message/],
  [['run', 'hi', '--config', '/nowhere.json'], 2, /cannot be read \(ENOENT\)/],
  [['run', 'hi', '--provider', 'nobody'], 2, /nobody/],
  [['show', 'nothing'], 3, /there is no session or turn `nothing`/],
  [['show', '01ARZ3NDEKTSV4RRFFQ69G5FAV'], 3, /there is no session or turn/],
  [['tree', 'nothing'], 3, /there is no session `nothing`/],
  [['compact', 'nothing'], 3, /nothing/],
  [['import', '/nowhere'], 3, /cannot be read \(ENOENT\)/],
  [['sessions', '--ledger', '/nowhere.db'], 3, /there is no ledger at/],
] as const)('%j ends with code %i', async (args, expected, message) => {
  const { cli } = await home(says('ok'))
  if (expected === 3 || args[0] === 'usage' || args[0] === 'recover') await cli('run', 'hi')
  const { code, stdout, stderr } = await cli(...args)
  expect([code, stdout]).toEqual([expected, ''])
  expect(stderr).toMatch(/^nexus-agent: [^\n]*\n$/)
  expect(stderr).toMatch(message)
})

test('help and the version are on the standard output', async () => {
  const { cli } = await home()
  const { version } = JSON.parse(
    readFileSync(new URL('../../package.json', import.meta.url), 'utf8'),
  )
  expect(await cli('--version')).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
  expect((await cli()).stdout).toMatch(/^Runs agents[\s\S]*\n {2}doctor /)
  expect((await cli('usage', '--help')).stdout).toMatch(
    /^Print tokens and cost\.\n[\s\S]*--by <what>/,
  )
})

test('a foreign file is no ledger, and stays as it is', async () => {
  const { cli, path } = await home()
  const file = join(path, 'notes.txt')
  writeFileSync(file, 'my notes '.repeat(100))
  const { code, stderr } = await cli('sessions', '--ledger', file)
  expect([code, stderr]).toEqual([1, expect.stringMatching(/^nexus-agent: .*notes\.txt/)])
  expect(readFileSync(file, 'utf8')).toBe('my notes '.repeat(100))
})

test('the ids that are printed are those of the ledger', async () => {
  const { cli, state } = await home(says('ok'))
  await cli('run', 'hi')
  const [turn] = (await ledgerOf(state).ledger.turns()).items
  expect((await cli('tree')).stdout.match(ULID)?.[0]).toBe(turn?.id)
})
