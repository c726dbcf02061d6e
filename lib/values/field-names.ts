// Names of fields that are not known: which known one was meant. It must never repeat a long name, or a value.

/** Names that other libraries have for a field are listed as `others`; the rest is found by its letters. */
function meant(
  name: string,
  known: readonly string[],
  others: Readonly<Record<string, string>> = {},
): string | undefined {
  if (Object.hasOwn(others, name)) return others[name]
  if (name.length > 40) return undefined
  const plain = simple(name)
  let best: string | undefined
  // A third of its letters may be wrong.
  let least = Math.floor(plain.length / 3) + 1
  for (const candidate of known) {
    const other = simple(candidate)
    const near = other.startsWith(plain) && plain.length >= 4 ? 0 : distance(plain, other)
    if (near >= least) continue
    least = near
    best = candidate
  }
  return best
}

/** Why a field is refused that is none of `of`. */
function unknownField(
  name: string,
  of: string,
  known: readonly string[],
  others: Readonly<Record<string, string>> = {},
): string {
  const other = meant(name, known, others)
  const way =
    other === undefined ? `its fields are ${known.join(', ')}` : `did you mean \`${other}\`?`
  return `is not a field of ${of}; ${way}`
}

/** A name without case and separators: `time_out` and `timeOut` are the same. */
function simple(name: string): string {
  return name.toLowerCase().replaceAll(/[_-]/g, '')
}

/** How many letters are to be changed, added, left out, or exchanged with their neighbour. */
function distance(a: string, b: string): number {
  let before: number[] = []
  let above = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      let least = Math.min(at(above, j) + 1, at(row, j - 1) + 1, at(above, j - 1) + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        least = Math.min(least, at(before, j - 2) + 1)
      }
      row.push(least)
    }
    before = above
    above = row
  }
  return at(above, b.length)
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? Number.POSITIVE_INFINITY
}

/** A message of the native side about an unknown name, with the known one that was meant. */
function suggested(message: string): string {
  const found = /(?:unknown field `([^`]*)`|`([^`]*)` is not known), expected (.*)$/.exec(message)
  if (found === null) return message
  const [, field, value, expected = ''] = found
  const known = [...expected.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)
  const other = meant(field ?? value ?? '', known)
  return other === undefined ? message : `${message}; did you mean \`${other}\`?`
}

export { meant, suggested, unknownField }
