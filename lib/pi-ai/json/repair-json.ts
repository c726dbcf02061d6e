// Mends the texts of JSON that a model wrote: raw control characters, and backslashes that escape nothing. It must never change JSON that is whole.

/** A text of JSON, also one that does not end; what is between texts is left alone. */
const TEXT = /"[^"\\]*(?:\\[\s\S][^"\\]*)*(?:"|\\?$)/g
const ESCAPE = /\\(u[0-9a-fA-F]{4}|["\\/bfnrt])?/g
const NAMES: Readonly<Record<string, string>> = {
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
}

function repairJson(json: string): string {
  return json.replace(TEXT, (text) =>
    text
      .replace(ESCAPE, (whole, known) => (known === undefined ? '\\\\' : whole))
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what JSON refuses.
      .replace(/[\u0000-\u001f]/g, (control) => NAMES[control] ?? escaped(control)),
  )
}

function escaped(control: string): string {
  return `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** @throws a SyntaxError where mending does not help. */
function parseJsonWithRepair<Value = unknown>(json: string): Value {
  try {
    return JSON.parse(json)
  } catch (error) {
    const repaired = repairJson(json)
    if (repaired === json) throw error
    return JSON.parse(repaired)
  }
}

export { parseJsonWithRepair, repairJson }
