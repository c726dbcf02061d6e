// The JSON5 of configs: what the format allows, what it refuses, and where. It must never test what a config means.

import { expect, test } from 'vitest'
import { parseJson5 } from '../../../lib/run-agent/config/json5.ts'

const refusal = (text: string) => {
  try {
    return parseJson5(text)
  } catch (error) {
    return (error as Error).message
  }
}

test.each([
  ['// one\n{ /* two\n */ a: 1, }\n// three', { a: 1 }],
  ['{ \'a b\': "x", $c_1: [1, 2,], ünï: null }', { 'a b': 'x', $c_1: [1, 2], ünï: null }],
  ["'it\\'s \"here\"'", 'it\'s "here"'],
  ["'a\\\nb\\x41\\u0042\\n\\q\\0'", 'abAB\nq\0'],
  [
    '[+1, -.5, 5., 0x1F, -0xa, 1e3, Infinity, -Infinity]',
    [1, -0.5, 5, 31, -10, 1000, Infinity, -Infinity],
  ],
  ['[true, false, null]', [true, false, null]],
  ['\ufeff\u00a0 7 \u2028', 7],
  ['{ null: 1, Infinity: 2 }', { null: 1, Infinity: 2 }],
])('%j is read', (text, value) => {
  expect(parseJson5(text)).toEqual(value)
})

test('NaN is a number of the format', () => {
  expect(parseJson5('NaN')).toBeNaN()
})

test('every JSON text is read as `JSON.parse` reads it', () => {
  const value = {
    text: 'quotes " \' \\ \n \u0000 \ud83d\ude00 \ud83d',
    numbers: [0, -0, 1.5e-7, 1e21, Number.MAX_SAFE_INTEGER],
    nested: { a: [{}, [], [[]]], '': null, __proto__: 1 },
  }
  for (const space of [0, 2]) {
    const text = JSON.stringify(value, null, space).replace(
      '"nested":',
      '"__proto__": 5, "nested":',
    )
    expect(JSON.stringify(parseJson5(text))).toBe(JSON.stringify(JSON.parse(text)))
  }
})

test.each([
  ['', 'line 1, column 1: the text ends too early'],
  ['{ a: 1', 'line 1, column 7: the text ends too early'],
  ['{\n  a: b\n}', 'line 2, column 6: unexpected `b`'],
  ['{ a: 1 b: 2 }', 'line 1, column 8: unexpected `b`'],
  ['[1,,2]', 'line 1, column 4: unexpected `,`'],
  ['{ 1a: 2 }', 'line 1, column 3: unexpected `1`'],
  ['010', 'line 1, column 1: unexpected `0`'],
  ['0x', 'line 1, column 1: unexpected `0`'],
  ['truely', 'line 1, column 1: unexpected `t`'],
  ["'a\nb'", 'line 1, column 3: a text is not closed on its line'],
  ["'\\u12'", 'line 1, column 4: unexpected `1`'],
  ["'\\1'", 'line 1, column 3: unexpected `1`'],
  ['/* a', 'line 1, column 1: a comment is not closed'],
  ['1 2', 'line 1, column 3: unexpected `2`'],
  ['`a`', "line 1, column 1: unexpected `'`"],
])('%j is refused', (text, message) => {
  expect(refusal(text)).toBe(message)
})

test('a text that is nested too deep is refused, and does not end the process', () => {
  expect(refusal('['.repeat(100_000))).toBe(
    'line 1, column 202: is nested more than 200 levels deep',
  )
})
