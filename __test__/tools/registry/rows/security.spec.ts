// What keeps the tools of an agent from doing harm: a test for each row. It must never test again what a spec beside it proves.
//
// | Row: files and shells                                   | Test                                                                 |
// |---------------------------------------------------------|----------------------------------------------------------------------|
// | Tools open relative to a directory handle               | "files: …", and `../../coding/hostile.spec.ts`, both tests           |
// | Links out, FIFOs, devices, `/proc`                      | `../../coding/hostile.spec.ts`, "200 hostile paths …"                |
// | A write is a new file that replaces the old one         | crates/workspace, `a_replaced_file_has_its_mode_and_is_another_file` |
// | `.git`, ledger and log, config, patch journal protected | `../../coding/protected.spec.ts`, a test for each                    |
// | What is read has a limit; binaries are known            | `../../coding/pi-files.spec.ts`                                      |
// | A cleaned environment, no input, umask 077              | crates/workspace, `a_command_runs_in_the_workspace_with_…`           |
// | Output is bounded, and whole in a file                  | "shells: a gigabyte …", `../../coding/pi-bash.spec.ts`               |
// | A call returns when the shell ends                      | crates/workspace, `a_shell_that_ends_returns_though_its_pipe_…`      |
// | Time limits and aborts leave no process                 | "shells: nothing is left …", and crates/workspace, `nothing_is_left_…` |
// | What a process cannot be found by is stated             | `../../coding/bash.spec.ts`, "a process that clears its environment …" |
// | A patch happens whole or not at all                     | `../../coding/patch-kills.spec.ts`                                   |
// | Servers end with a host that is killed                  | `../../mcp/hostile.spec.ts`, "a server ends with a host that …"      |
// | Limits of each process; what no cgroup bounds is stated | `../../coding/bash.spec.ts`, "each process …", "capabilities say …"  |
// | A sandbox that is required and not there is refused     | `../../coding/bash.spec.ts`, "capabilities say …"                    |
//
// | Row: secrets and network                                | Test                                                                 |
// |---------------------------------------------------------|----------------------------------------------------------------------|
// | A key is in one header, and in no log, event or file    | `../../../security/secrets.spec.ts`, "a key never appears"           |
// | A key is in no heap snapshot or memory after the end    | `../../../security/memory.spec.ts`; crates/provider, `a_key_is_gone_…` |
// | A token of a server is the host's, or a login's         | `../../mcp/http.spec.ts`, `../../mcp/oauth.spec.ts`                  |
// | A key in every encoding is removed from errors          | `../../../security/echoed-keys.spec.ts`                              |
// | A login calls no internal address that a server names   | `../../mcp/oauth.spec.ts`, "a server cannot have internal …"         |
// | TLS 1.2 or newer                                        | `../../../security/tls.spec.ts`                                      |
// | Roots, authorities by option                            | crates/provider, src/http/tests/tls.rs                               |
// | No redirect is followed                                 | `../../../security/secrets.spec.ts`, "… in a redirect"               |
// | https, or this machine; no addresses of metadata        | `../../../security/secrets.spec.ts`, "options that are refused"      |
// | A name is checked again by what it resolves to          | crates/provider, `a_name_that_resolves_to_a_metadata_address_…`      |
// | Only the hosts that are allowed                         | "network: only hosts …"                                              |
// | Headers cannot be forged, nor those of the key replaced | `../../../security/secrets.spec.ts`, "the header %j: %j"             |
// | A proxy of the environment is not used                  | "network: …"                                                         |
// | The variables of servers and shells are chosen          | `../../mcp/calls.spec.ts`, "a server gets a few variables …"         |
//
// | Row: injected instructions                              | Test                                                                 |
// |---------------------------------------------------------|----------------------------------------------------------------------|
// | A permission before each call; a failing hook denies    | `../../hooks.spec.ts`, "a gate that %s is a deny"                    |
// | A hook throws, or is silent for 30 s: denied            | `../../../security/undecided.spec.ts`                               |
// | An approval has expired: denied                         | `../../../engine/approvals/deciding.spec.ts`, "an approval that …"   |
// | What a server says of its tools grants nothing          | `../../mcp/calls.spec.ts`, "in a run with a hook, calls of a server …" |
// | Lists of tools know a server's own names                | `../../mcp/calls.spec.ts`, "policies allow and deny a tool by its …" |
// | Lists of tools hold where a call runs                   | `../policies.spec.ts`, "a tool that %s is neither offered nor run"   |
// | Results are data, never instructions                    | `../../../security/injection.spec.ts`                                |
// | Budgets: steps, calls, tokens, time                     | `../policies.spec.ts`                                                |
// | Budgets: depth and number of agents                     | `../../../broker/agents/spawn.spec.ts`, "a call over a limit …"      |
// | Addresses in results are not called                     | "results: …"                                                         |
// | The ledger has who approved                             | `../../../engine/approvals/deciding.spec.ts`, "a decision is final…" |
//
// | Row: large and hostile input                            | Test                                                                 |
// |---------------------------------------------------------|----------------------------------------------------------------------|
// | Depth and number of keys of arguments                   | `../../validation.spec.ts`, "%s as arguments is an error result …"   |
// | 4 MiB of arguments                                      | `../../../providers/answer-limits.spec.ts`                           |
// | Size of schemas, patterns that cannot be compiled       | `../../validation-time.spec.ts`, "a schema with too large patterns…" |
// | Patterns without an end                                 | `../../validation-time.spec.ts`, "a check that takes too long …"     |
// | A schema elsewhere is not fetched                       | `../../mcp/hostile.spec.ts`, "tools whose schemas cannot be used …"  |

import { execFile } from 'node:child_process'
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import {
  AgentEngine,
  type AgentEngineError,
  type AgentEngineOptions,
  createCodingTools,
  scriptedProvider,
} from '../../../../index.js'
import { closing, folder, serving } from '../../../support/cleanup.js'
import { chat } from '../../../support/servers/chat.js'
import { callAll, engineWith, scriptedServer } from '../../../support/servers/mcp.js'
import { sse } from '../../../support/servers/server.js'
import { callTools, tool } from '../../../support/tools.js'

const child = (name: string) => join(import.meta.dirname, '../../../children/tools', name)

test('files: a workspace whose path leads elsewhere by now is still the one that was opened, for every tool', async () => {
  const { path } = folder()
  const [work, outside] = [join(path, 'work'), join(path, 'outside')]
  for (const [dir, text] of [
    [work, 'inside'],
    [outside, 'outside'],
  ] as const) {
    mkdirSync(dir)
    writeFileSync(join(dir, 'file'), text)
  }
  const tools = createCodingTools(work)
  renameSync(work, join(path, 'moved'))
  symlinkSync('outside', work)
  const call = async (name: string, params: object) => {
    const { content } = (await tools.find((each) => each.name === name)?.execute('1', params)) ?? {}
    return JSON.stringify(content)
  }
  expect(await call('read', { path: 'file' })).toContain('inside')
  expect(await call('grep', { pattern: 'side' })).toContain('file:1: inside')
  await call('write', { path: 'made', content: 'x' })
  await call('bash', { command: 'cat file > copy' })
  expect(readdirSync(outside)).toEqual(['file'])
  expect(readdirSync(join(path, 'moved')).sort()).toEqual(['copy', 'file', 'made'])
  expect(readFileSync(join(path, 'moved/copy'), 'utf8')).toBe('inside')
})

test('shells: a gigabyte of output needs no memory, and nothing is left of what hides', async () => {
  const bytes = process.env.SHELL_BYTES ?? '100000000'
  const { stdout } = await promisify(execFile)(process.execPath, [child('shells.mjs'), bytes])
  const { risen, shown, left, ended } = JSON.parse(stdout)
  console.log(`${bytes} bytes of output: ${risen} KiB more`)
  expect(left).toEqual([])
  expect(ended).toEqual(Array.from({ length: ended.length }, () => true))
  expect(shown).toBeLessThan(129 * 1024)
  expect(risen).toBeLessThan(16 * 1024)
}, 120_000)

test('network: a proxy of the environment is not used', async () => {
  const proxy = await serving()
  const server = await serving(sse(chat.answer('ok')))
  const names = ['HTTP_PROXY', 'http_proxy', 'ALL_PROXY', 'all_proxy']
  const given = Object.fromEntries(names.map((name) => [name, proxy.url]))
  const env = { ...process.env, NO_PROXY: '', no_proxy: '', ...given }
  await promisify(execFile)(process.execPath, [child('one-call.mjs'), server.url], { env })
  expect([proxy.seen.length, server.seen.length]).toEqual([0, 1])
})

test('network: only hosts that are allowed are providers and servers, the default ones as well', () => {
  const refused = (options: AgentEngineOptions) => {
    try {
      closing(new AgentEngine(options))
    } catch (error) {
      const { code, field, message } = error as AgentEngineError
      return [code, field, /`[^`]+` is not among `allowedHosts` \([^)]*\)/.exec(message)?.[0]]
    }
    return undefined
  }
  const allowedHosts = ['*.example.com', '127.0.0.1']
  const providers = (host: string) => ({
    a: { api: 'openai-chat', baseUrl: `https://${host}/v1` } as const,
  })
  const mcp = (host: string) => ({ s: { url: `https://${host}/mcp` } })
  const none = { x: scriptedProvider([]) }
  for (const host of ['api.example.com', 'API.EXAMPLE.COM', '127.0.0.1:8080']) {
    expect(refused({ allowedHosts, providers: providers(host), mcp: mcp(host) })).toBe(undefined)
  }
  for (const host of ['example.com', 'api.example.com.evil.net', '10.0.0.1', 'evilexample.com']) {
    const why = `\`${host}\` is not among \`allowedHosts\` (*.example.com, 127.0.0.1)`
    const code = 'invalid_options'
    expect(refused({ allowedHosts, providers: providers(host) })).toEqual([
      code,
      'providers.a.baseUrl',
      why,
    ])
    expect(refused({ allowedHosts, providers: none, mcp: mcp(host) })).toEqual([
      code,
      'mcp.s.url',
      why,
    ])
  }
  expect(refused({ allowedHosts })?.[1]).toBe('providers.anthropic.baseUrl')
  expect(refused({ allowedHosts: [], providers: none })).toBe(undefined)
})

test('results: no address in a result is called', async () => {
  const server = await serving()
  const at = (path: string) => `${server.url}/${path}`
  const { engine, provider } = engineWith({ s: scriptedServer() }, [
    callTools(['look'], ['s__echo', { url: at('echo') }], ['s__parts']),
    `See ![it](${at('answer.png')}).`,
  ])
  const look = tool('look', () => ({
    content: [{ type: 'text', text: `![image](${at('image.png')}) <img src="${at('tag')}">` }],
    details: { url: at('details'), $ref: at('schema') },
  }))
  const { texts, result } = await callAll({ engine, provider }, { tools: [look] })
  expect(texts.join()).toContain(at('image.png'))
  expect([result.text, server.seen]).toEqual([`See ![it](${at('answer.png')}).`, []])
})
