// Reads the name of a time zone. It must never compute a time.

import { refusal } from '../../values/errors.ts'
import { readName } from '../../values/reader.ts'
import { formatOf } from './zone.ts'

/** The name of a zone that is known. Default: that of this process, because another one may have another. */
function readZone(given: unknown, path: string): string {
  if (given === undefined) return Intl.DateTimeFormat().resolvedOptions().timeZone
  const zone = readName(given, path, 'invalid_options')
  try {
    formatOf(zone)
  } catch {
    throw refusal('invalid_options', path, 'is not a time zone, such as `Europe/Berlin`')
  }
  return zone
}

export { readZone }
