// What a config may contain: each key with its rule. It must never read a file, or put a value into a problem.

import type { ConfigProblems } from './problems.ts'

/** Checks one value; what is wrong with it is added to the problems. */
type Rule = (value: unknown, path: string, problems: ConfigProblems) => void
type Rules = Readonly<Record<string, Rule>>

const APIS = [
  'anthropic-messages',
  'openai-chat',
  'openai-responses',
  'google-generative-ai',
  'bedrock-converse',
]
const TOOLS = ['read', 'write', 'edit', 'bash', 'apply_patch', 'ls', 'grep', 'find']
const PROFILE_TYPES = ['api_key', 'token']

const text: Rule = (value, path, problems) => {
  if (typeof value !== 'string' || value.trim() === '') {
    problems.add(path, 'is not a text with at least one character')
  }
}
const flag: Rule = (value, path, problems) => {
  if (typeof value !== 'boolean') problems.add(path, 'is not true or false')
}
const whole =
  (least: number): Rule =>
  (value, path, problems) => {
    if (!Number.isSafeInteger(value) || Number(value) < least) {
      problems.add(path, `is not a whole number from ${least} on`)
    }
  }
const within =
  (least: number, most: number): Rule =>
  (value, path, problems) => {
    if (typeof value !== 'number' || !(value >= least && value <= most)) {
      problems.add(path, `is not a number from ${least} to ${most}`)
    }
  }
const oneOf =
  (...allowed: readonly string[]): Rule =>
  (value, path, problems) => {
    if (!allowed.includes(value as string)) {
      problems.add(path, `is not one of ${allowed.join(', ')}`)
    }
  }
const address: Rule = (value, path, problems) => {
  if (typeof value !== 'string' || !/^https?:$/.test(protocolOf(value))) {
    problems.add(path, 'is not an address that begins with http:// or https://')
  }
}
const list =
  (rule: Rule): Rule =>
  (value, path, problems) => {
    if (!Array.isArray(value)) return problems.add(path, 'is not a list')
    value.forEach((item, at) => {
      rule(item, `${path}[${at}]`, problems)
    })
  }
/** The engine checks it: it has the rules of its own options. */
const fields: Rule = (value, path, problems) => {
  if (!isFields(value)) problems.add(path, 'is not an object')
}
const variables: Rule = (value, path, problems) => {
  if (!isFields(value)) return problems.add(path, 'is not an object of texts')
  for (const [name, each] of Object.entries(value)) {
    if (typeof each !== 'string') problems.add(`${path}.${name}`, 'is not a text')
  }
}
/** An object with known keys. */
const object =
  (rules: Rules): Rule =>
  (value, path, problems) => {
    if (!isFields(value)) return problems.add(path, 'is not an object')
    const inside = path === '' || path === 'config' ? '' : `${path}.`
    for (const [name, field] of Object.entries(value)) {
      const rule = Object.hasOwn(rules, name) ? rules[name] : undefined
      if (rule === undefined) problems.unknown.push(`${inside}${name}`)
      else if (field !== undefined) rule(field, `${inside}${name}`, problems)
    }
  }

const profile = object({ id: text, apiKey: text, type: oneOf(...PROFILE_TYPES) })

const profiles: Rule = (value, path, problems) => {
  if (!Array.isArray(value)) return problems.add(path, 'is not a list of `{ id, apiKey }`')
  const ids = new Set<unknown>()
  value.forEach((item, at) => {
    const here = `${path}[${at}]`
    profile(item, here, problems)
    if (!isFields(item)) return
    for (const name of ['id', 'apiKey']) {
      if (item[name] === undefined) problems.add(`${here}.${name}`, 'is missing')
    }
    if (item.id !== undefined && ids.has(item.id)) {
      problems.add(`${here}.id`, 'is the id of an earlier profile')
    }
    ids.add(item.id)
  })
}

/** The whole config. `channels`, `gateway` and `logging` belong to the host. */
const configRule = object({
  agent: object({
    workspaceDir: text,
    identity: text,
    provider: text,
    model: text,
    maxIterations: whole(1),
    maxRetries: whole(0),
    maxToolResultChars: whole(1),
    maxResponseTokens: whole(1),
    contextWindow: whole(1),
    temperature: within(0, 2),
    thinkingConfig: fields,
    timeoutMs: whole(1),
    tools: list(oneOf(...TOOLS)),
    bash: object({
      sandbox: oneOf('preferred', 'required', 'off'),
      network: flag,
      timeoutMs: whole(1),
      env: variables,
      background: oneOf('end', 'keep'),
    }),
    readRoots: list(text),
    ledger: text,
  }),
  provider: object({
    name: text,
    model: text,
    baseUrl: address,
    api: oneOf(...APIS),
    authProfiles: profiles,
    maxRetries: whole(0),
    fallbacks: list(text),
  }),
  channels: fields,
  gateway: fields,
  logging: fields,
})

function isFields(value: unknown): value is Record<string, unknown> {
  return value !== null && typeof value === 'object' && !Array.isArray(value)
}

function protocolOf(value: string): string {
  try {
    return new URL(value).protocol
  } catch {
    return ''
  }
}

export { configRule }
