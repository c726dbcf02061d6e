// Auth profiles whose key is a function: taken out of the options, called when a key is needed, and read.
// It must never keep, print or throw a key.

import { messageOf, refusal } from '../values/errors.js'
import { isObject, readFields, readList } from '../values/reader.js'

const CODE = 'invalid_options'
/** Characters that a key may have: no header holds more. */
const MAX_KEY = 65_536

/** The profiles as they cross, and the functions among them by their place. */
function readProfiles(given) {
  const functions = new Map()
  const list = readList(given, 'authProfiles', CODE)
  if (list === undefined) return { profiles: given, functions }
  const profiles = list.map((profile, place) => {
    if (!isObject(profile)) return profile
    const path = `authProfiles[${place}]`
    const at = (field, message) => refusal(CODE, `${path}.${field}`, message)
    const { refresh, ...fields } = readFields(profile, path, CODE, `${path}.`)
    if ('hosted' in fields) throw at('hosted', 'is not known')
    let get
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
    functions.set(place, { get, profileId: fields.id })
    return { ...fields, hosted: true }
  })
  return { profiles, functions }
}

/** What a function gives: `{ key, expiresAt? }`, or `{ error }` in words. Never throws. */
async function askForKey({ get, profileId }, refused) {
  try {
    const given = await get({ profileId, refused })
    const { key, expiresAt } = typeof given === 'string' ? { key: given } : (given ?? {})
    if (typeof key !== 'string')
      return { error: 'it gave no key; return one, or `{ key, expiresAt }`' }
    if (key.length > MAX_KEY) return { error: 'its key is too long for a header' }
    if (expiresAt === undefined || expiresAt === null) return { key }
    if (!Number.isFinite(expiresAt))
      return { error: 'its `expiresAt` is not a time in milliseconds' }
    return { key, expiresAt }
  } catch (error) {
    return { error: messageOf(error, 'it') }
  }
}

export { askForKey, readProfiles }
