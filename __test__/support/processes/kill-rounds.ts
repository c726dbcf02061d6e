// Rounds of processes that are killed at another step each, and of one that then works to the end. It must never ask a process that is
// killed for anything.

import { killable } from './killable.js'

/** A round: the script, its arguments for a process, and the step at which each is killed. */
export interface KillRound {
  script: string
  processes: number
  /** The arguments of the process `name`, which sends `count` messages and then ends or stays. */
  args(name: string, count: number, until: 'stay' | 'end'): string[]
  /** The messages of a process that is killed, and of the last one. */
  messages: [killed: number, last: number]
  /** The number of lines after which a process is killed. */
  step(number: number): number
  /** Whether it is killed only after it has sent its messages; otherwise not later. */
  sendsFirst: boolean
  /** More of the environment of each process. */
  env?: Record<string, string>
}

/** Runs a round. Returns the messages with receipts: each id with its text. */
export async function killRound(round: KillRound): Promise<Map<string, string>> {
  const { script, processes, args, messages, step, sendsFirst, env } = round
  const receipts = new Map<string, string>()
  const take = (lines: string[]) => {
    for (const line of lines) {
      const [, id, text] = /^receipt (\S+) (.+)$/.exec(line) ?? []
      if (id !== undefined && text !== undefined) receipts.set(id, text)
    }
  }
  const children = Array.from({ length: processes }, (_, number) =>
    killable(script, args(`p${number}`, messages[0], 'stay'), env),
  )
  await Promise.all(
    children.map(async (child, number) => {
      const [sent, reached] = [child.line('sent'), child.count(step(number))]
      if (sendsFirst) await Promise.all([sent, reached])
      else await Promise.race([sent, reached])
      child.kill()
      await child.ended
      take(child.lines)
    }),
  )
  const last = killable(script, args('last', messages[1], 'end'), env)
  await last.line('ended')
  await last.ended
  take(last.lines)
  return receipts
}
