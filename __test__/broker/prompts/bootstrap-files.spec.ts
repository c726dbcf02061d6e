// The files of a workspace in the prompts of a broker's agents: which, how much of each, and when they are read. It must never write
// outside of its folders.

import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { Broker, type BrokerOptions } from '../../../index.js'
import { brokerAt, echoing } from '../../support/broker.js'
import { afterwards, folder, serving } from '../../support/cleanup.js'
import { engineAt, testModel } from '../../support/engine.js'
import { anthropic } from '../../support/servers/anthropic.js'
import { sse, type TestServer } from '../../support/servers/server.js'
import { SUMMARY } from '../../support/values/summary.js'

const linux = process.platform === 'linux'
const agent = { model: 'test-model', provider: 'test' }
const main = 'agent:main:main'

/** A folder with files. */
function workspace(files: Record<string, string>): string {
  const { path } = folder()
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(path, name, '..'), { recursive: true })
    writeFileSync(join(path, name), text)
  }
  return path
}

/** The system prompt of the newest request. */
const prompt = (server: TestServer): string => {
  const { system } = server.seen.at(-1)?.body as { system?: { text: string }[] }
  return system?.map(({ text }) => text).join('') ?? ''
}

/** The names of the files in a prompt. */
const files = (server: TestServer) =>
  [...prompt(server).matchAll(/<file path="([^"]+)">/g)].map(([, name]) => name)

async function ask(broker: Broker, session = main) {
  const message = session === main ? `Hi ${'lorem '.repeat(400)}` : 'Hi'
  return broker.execute({ to: { session }, message }).result
}

test.runIf(linux)(
  'an agent with a workspace has its files in their order; the memory is for its main session',
  async () => {
    const server = await echoing()
    const path = workspace({
      'MEMORY.md': 'A secret.',
      'AGENTS.md': 'Be kind.\n',
      'SOUL.md': 'A fox.',
      'BOOTSTRAP.md': 'First.',
      'README.md': 'Not this.',
    })
    const { broker } = brokerAt(server.url, {
      agents: { main: { ...agent, identity: 'You are Atlas.', workspace: path } },
      context: { timeZone: 'Europe/Berlin' },
    })
    await ask(broker)
    expect(files(server)).toEqual(['AGENTS.md', 'SOUL.md', 'MEMORY.md', 'BOOTSTRAP.md'])
    expect(prompt(server)).toContain(
      `You are Atlas.\n\n## Workspace\n\nThe working directory is \`${path}\`.\n\n<file path="AGENTS.md">\nBe kind.\n</file>\n\n`,
    )
    expect(prompt(server)).toContain('- Time zone: Europe/Berlin\n')
    await ask(broker, 'agent:main:telegram:group:7')
    expect(files(server)).toEqual(['AGENTS.md', 'SOUL.md', 'BOOTSTRAP.md'])
    expect(prompt(server)).not.toContain('secret')
  },
)

test.runIf(linux)('a worker has a minimal prompt: AGENTS and TOOLS', async () => {
  const server = await echoing()
  const path = workspace({ 'AGENTS.md': 'a', 'TOOLS.md': 't', 'SOUL.md': 's', 'MEMORY.md': 'm' })
  const base = { ...agent, identity: 'Me.', workspace: path, prompt: { safety: 'No mail.' } }
  const { broker } = brokerAt(server.url, {
    agents: { main: base, coder: { ...base, role: 'worker' } },
  })
  for (const label of ['agent:main:worker:1', 'agent:coder:main']) {
    await ask(broker, label)
    expect([label, files(server), prompt(server).includes('No mail.')]).toEqual([
      label,
      ['AGENTS.md', 'TOOLS.md'],
      false,
    ])
  }
})

test.runIf(linux)(
  'files that an agent or a persona names are expected; one that leads outside is not read',
  async () => {
    const server = await echoing()
    const outside = workspace({ 'secret.md': 'outside' })
    const path = workspace({
      'SOUL.md': 'soul',
      'notes/rules.md': 'rules',
      'big.md': 'x'.repeat(30_000),
    })
    symlinkSync(join(outside, 'secret.md'), join(path, 'USER.md'))
    symlinkSync('SOUL.md', join(path, 'inside.md'))
    writeFileSync(join(path, 'bytes.md'), Buffer.from([0xff, 0xfe, 0x41]))
    const named = ['USER.md', 'inside.md', 'NONE.md', 'bytes.md', '../x.md']
    const { broker } = brokerAt(server.url, {
      agents: { main: { ...agent, workspace: path, files: named } },
      personas: { atlas: { agentId: 'main', files: ['notes/rules.md', 'big.md'] } },
    })
    await ask(broker)
    const text = prompt(server)
    expect(text).not.toContain('outside\n')
    expect(text).toContain('[USER.md is not read: `USER.md` leads outside of the workspace')
    expect(text).toContain('<file path="inside.md">\nsoul\n</file>')
    expect(text).toContain('[NONE.md is missing]')
    expect(text).toContain('[bytes.md is not read: `bytes.md` is not UTF-8]')
    expect(text).toMatch(/\[\.\.\/x\.md is not read: .*outside of the workspace/)
    await ask(broker, 'agent:atlas:main')
    expect(files(server)).toEqual(['notes/rules.md', 'big.md'])
    expect(prompt(server)).toContain('[… 12000 characters are left out; read the file for them …]')
  },
)

test.runIf(linux)(
  'a session has the files of its first turn, also after a restart, until a compaction',
  async () => {
    const server = await serving((response, seen) =>
      sse(anthropic.answer(seen.body.model === 'tiny' ? SUMMARY : 'ok'))(response, seen),
    )
    const path = workspace({ 'AGENTS.md': 'one' })
    const options: BrokerOptions = { agents: { main: { ...agent, workspace: path } } }
    const summariser = {
      models: [testModel, { ...testModel, id: 'tiny' }],
      compaction: { model: 'tiny', provider: 'test' },
    }
    const first = brokerAt(server.url, options, summariser)
    await ask(first.broker)
    writeFileSync(join(path, 'AGENTS.md'), 'two')
    await ask(first.broker)
    expect(prompt(server)).toContain('one')
    await first.broker.close()
    await first.engine.close()
    const engine = engineAt(server.url, { ledger: { path: first.file }, ...summariser })
    const broker = new Broker(engine, options)
    afterwards(async () => {
      await broker.close({ drainMs: 0 })
      await engine.close()
    })
    for (let turn = 0; turn < 4; turn++) await ask(broker)
    expect(prompt(server)).toContain('one')
    expect(await engine.compact(main)).not.toBeNull()
    await ask(broker)
    expect(prompt(server)).toContain('two')
    // Another session reads them when it begins.
    rmSync(join(path, 'AGENTS.md'))
    await ask(broker, 'agent:main:telegram:group:7')
    expect(files(server)).toEqual([])
  },
)

test.runIf(linux)('other files, limits or folders are read anew', async () => {
  const server = await echoing()
  const path = workspace({ 'AGENTS.md': 'x'.repeat(2_000), 'SOUL.md': 'soul' })
  const first = brokerAt(server.url, { agents: { main: { ...agent, workspace: path } } })
  await ask(first.broker)
  expect(files(server)).toEqual(['AGENTS.md', 'SOUL.md'])
  await first.broker.close()
  const prompts = { caps: { perFile: 1_000, total: 24_000 } }
  const broker = new Broker(first.engine, {
    agents: { main: { ...agent, workspace: path, files: ['AGENTS.md'], prompt: prompts } },
  })
  afterwards(() => broker.close({ drainMs: 0 }))
  await ask(broker)
  expect(files(server)).toEqual(['AGENTS.md'])
  expect(prompt(server)).toContain('[… 1100 characters are left out; read the file for them …]')
})

test('a folder that does not exist has no files; one whose files are expected fails the message', async () => {
  const server = await echoing()
  const path = join(folder().path, 'none')
  const { broker } = brokerAt(server.url, {
    agents: {
      main: { ...agent, workspace: path },
      strict: { ...agent, workspace: path, files: ['AGENTS.md'] },
    },
  })
  expect((await ask(broker)).text).toMatch(/^to Hi/)
  expect(prompt(server)).toBe('')
  await expect(ask(broker, 'agent:strict:main')).rejects.toMatchObject({ code: 'not_delivered' })
  expect(server.seen.length).toBe(1)
})

test('files are a list of names', async () => {
  const server = await echoing()
  const at = (files: unknown) => () =>
    brokerAt(server.url, { agents: { main: { ...agent, files: files as never } } })
  expect(at('AGENTS.md')).toThrow(/agents\.main\.files.*is not a list of paths/)
  expect(at(['a', 7])).toThrow(/agents\.main\.files\[1\]/)
  const persona = { agentId: 'main', files: 7 as never }
  expect(() => brokerAt(server.url, { personas: { atlas: persona } })).toThrow(
    /personas\.atlas\.files/,
  )
})
