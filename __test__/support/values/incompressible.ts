// A text that nothing makes smaller, the same for the same name. It must hold no character that JSON escapes.

import { createHash } from 'node:crypto'

/** So many characters of three bytes each. */
export function noise(name: string, length: number): string {
  let bytes = ''
  for (let n = 0; bytes.length < length; n++)
    bytes += createHash('sha512').update(`${name} ${n}`).digest().toString('latin1')
  const letter = (byte: string) => String.fromCodePoint(0x4e00 + byte.charCodeAt(0) * 41)
  return Array.from(bytes.slice(0, length), letter).join('')
}
