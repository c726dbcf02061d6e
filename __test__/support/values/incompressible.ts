// An incompressible text, equal for equal names. It must never contain a character that JSON escapes.

import { createHash } from 'node:crypto'

/** This many characters of three bytes each. */
export function noise(name: string, length: number): string {
  let bytes = ''
  for (let n = 0; bytes.length < length; n++)
    bytes += createHash('sha512').update(`${name} ${n}`).digest().toString('latin1')
  const letter = (byte: string) => String.fromCodePoint(0x4e00 + byte.charCodeAt(0) * 41)
  return Array.from(bytes.slice(0, length), letter).join('')
}
