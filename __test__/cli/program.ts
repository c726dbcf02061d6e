// The program `nexus-agent` as a test starts it: a home of its own, a scripted server as its provider, and its output as a pipe. It must
// never read the developer's home directory or keys.

import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterwards, folder, serving } from '../support/cleanup.js'
import type { Handler } from '../support/servers/server.js'

export const program = fileURLToPath(new URL('../../cli.js', import.meta.url))

export interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

export interface Running {
  child: ChildProcess
  ended: Promise<Ended>
}

/** A home directory with a config that calls the server. */
export async function home(...answers: Handler[]) {
  const server = await serving(...answers)
  const { path } = folder()
  const state = join(path, '.myclaw')
  mkdirSync(state)
  const provider = {
    name: 'anthropic',
    model: 'claude-haiku-4-5',
    baseUrl: server.url,
    authProfiles: [{ id: 'primary', apiKey: 'canary-key-of-the-config' }],
  }
  writeFileSync(join(state, 'myclaw.json'), JSON.stringify({ provider }))
  const env = { PATH: process.env.PATH, HOME: path, MYCLAW_HOME: path, TERM: 'xterm-256color' }
  const start = (args: readonly string[], more: NodeJS.ProcessEnv = {}): Running => {
    const child = spawn(process.execPath, [program, ...args], { env: { ...env, ...more } })
    afterwards(() => child.kill('SIGKILL'))
    return { child, ended: ending(child) }
  }
  return {
    server,
    path,
    state,
    env,
    start,
    /** Runs a command to its end. */
    async cli(...args: string[]): Promise<Ended> {
      const { child, ended } = start(args)
      child.stdin?.end()
      return ended
    },
    /** Runs a command with this input. */
    async piped(input: string, ...args: string[]): Promise<Ended> {
      const { child, ended } = start(args)
      child.stdin?.end(input)
      return ended
    },
    /** The text of the last message of a request, without the date. */
    sent: (index: number): string =>
      server.seen[index]?.body.messages
        .at(-1)
        .content.map((part: { text?: string; type: string }) => part.text ?? part.type)
        .filter((text: string) => !text.startsWith('Date: '))
        .join('|'),
  }
}

function ending(child: ChildProcess): Promise<Ended> {
  let stdout = ''
  let stderr = ''
  child.stdout?.setEncoding('utf8').on('data', (text) => {
    stdout += text
  })
  child.stderr?.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  return new Promise((resolve) => {
    child.on('close', (code) => resolve({ code, stdout, stderr }))
  })
}

/** The lines of JSON of an output. */
export const jsonLines = (text: string): Record<string, any>[] =>
  text
    .trimEnd()
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))
