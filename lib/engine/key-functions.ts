// Auth profiles and MCP servers whose key is a function: removes the functions from the options, calls them when a key is needed, and checks
// what they return.
// It must never store, print or throw a key.

import type { Refused } from '../native/hub.ts'
import { messageOf, refusal } from '../values/errors.ts'
import { isObject, readFields, readList } from '../values/reader.ts'
import { type ClientFunction, takeClientFunctions } from './client-functions.ts'

const CODE = 'invalid_options'
/** The numbers of servers' functions begin behind those of profiles. */
const FIRST_SERVER = 1_000_000
/** The maximum length of a key: no header is longer. */
const MAX_KEY = 65_536

/** A function that returns a key, and whose key. Its result is not checked yet. */
interface KeyFunction {
  get: (request: Refused) => unknown
  whose: { profileId: string } | { server: string }
}

/** A function of the host, which the native side calls by its number. */
type HostFunction = KeyFunction | ClientFunction

/** The result of a key function: a key with its expiry, or why there is none. */
interface KeyAnswer {
  key?: string
  expiresAt?: number
  error?: string
}

/** The profiles as JSON for the native side, and the key functions by the index of their profile. */
function readProfiles(given: unknown): {
  profiles: unknown
  functions: Map<number, HostFunction>
} {
  const functions = new Map<number, HostFunction>()
  const list = readList(given, 'authProfiles', CODE)
  if (list === undefined) return { profiles: given, functions }
  const profiles = list.map((profile, index) => {
    if (!isObject(profile)) return profile
    const path = `authProfiles[${index}]`
    const at = (field: string, message: string) => refusal(CODE, `${path}.${field}`, message)
    const { refresh, ...fields } = readFields(profile, path, CODE, `${path}.`)
    if ('hosted' in fields) throw at('hosted', 'is not known')
    let get: unknown
    if (refresh !== undefined) {
      if (fields.type !== 'oauth') throw at('refresh', "is for `type: 'oauth'` only")
      if (typeof refresh !== 'function') throw at('refresh', 'is not a function')
      if (typeof fields.key === 'function') throw at('key', 'is a function; `refresh` is one too')
      get = refresh
    } else if (typeof fields.key === 'function') {
      if (fields.type === 'oauth') throw at('refresh', 'is missing; pass the function as `refresh`')
      get = fields.key
      delete fields.key
    }
    if (get === undefined) return fields
    // An id that is no string is refused by the native side, before any key is needed.
    const profileId = fields.id as string
    functions.set(index, { get: get as KeyFunction['get'], whose: { profileId } })
    return { ...fields, hosted: true }
  })
  return { profiles, functions }
}

/** The MCP servers as JSON for the native side: the number of a function stands for it. Adds the functions to `functions`. */
function readServers(given: unknown, functions: Map<number, HostFunction>): unknown {
  if (!isObject(given)) return given
  const servers = readFields(given, 'mcp', CODE, 'mcp.')
  for (const [name, server] of Object.entries(servers)) {
    if (!isObject(server) || Array.isArray(server)) continue
    const { auth, ...fields } = readFields(server, `mcp.${name}`, CODE, `mcp.${name}.`)
    const add = (given: HostFunction) => {
      const number = FIRST_SERVER + functions.size
      functions.set(number, given)
      return number
    }
    takeClientFunctions(fields, `mcp.${name}`, add)
    servers[name] = fields
    if (auth === undefined || auth === null) continue
    if (typeof auth !== 'function') throw refusal(CODE, `mcp.${name}.auth`, 'is not a function')
    fields.auth = add({ get: auth as KeyFunction['get'], whose: { server: name } })
  }
  return servers
}

/** The ledger as JSON for the native side: the number of a password function stands for it. Adds the function to `functions`. */
function readLedger(given: unknown, functions: Map<number, HostFunction>): unknown {
  if (!isObject(given) || Array.isArray(given)) return given
  const { password, ...fields } = readFields(given, 'ledger', CODE, 'ledger.')
  if (password === undefined || password === null) return fields
  if (typeof password === 'string') return { ...fields, password }
  if (typeof password !== 'function')
    throw refusal(CODE, 'ledger.password', 'is not a string or a function')
  const get = () => password.call(given)
  const number = FIRST_SERVER + functions.size
  functions.set(number, { get, whose: { profileId: 'ledger' } })
  return { ...fields, password: number }
}

/** Calls a key function. Never rejects. */
async function requestKey({ get, whose }: KeyFunction, about: Refused): Promise<KeyAnswer> {
  try {
    const { refused, challenge } = about
    const given = await get({ ...whose, refused, ...(challenge !== undefined && { challenge }) })
    // A server may need none.
    if ((given === null || given === undefined) && 'server' in whose) return { key: '' }
    const { key, expiresAt }: { key?: unknown; expiresAt?: unknown } =
      typeof given === 'string' ? { key: given } : (given ?? {})
    if (typeof key !== 'string')
      return { error: 'it gave no key; return one, or `{ key, expiresAt }`' }
    if (key.length > MAX_KEY) return { error: 'its key is too long for a header' }
    if (expiresAt === undefined || expiresAt === null) return { key }
    if (typeof expiresAt !== 'number' || !Number.isFinite(expiresAt))
      return { error: 'its `expiresAt` is not a time in milliseconds' }
    return { key, expiresAt }
  } catch (error) {
    return { error: messageOf(error, 'it') }
  }
}

export type { HostFunction }
export { readLedger, readProfiles, readServers, requestKey }
