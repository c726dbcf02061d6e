// ArkType's own types and the package's: `tool()` takes the parameters from its schemas (`tsc -p .` over this file is the test). It must
// never be run. It is separate from types.test-d.ts, because ArkType's types do not pass `skipLibCheck: false`.

import { type } from 'arktype'
import { tool } from '../../index.js'

/** Compiles only if the two types are equal. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const is = <Yes extends true>(): Yes => true as Yes

const made = tool({
  name: 'arktype',
  description: '',
  inputSchema: type({ room: 'string', n: 'string.numeric.parse' }),
  outputSchema: type({ celsius: 'number' }),
  run: (params) => {
    is<Same<typeof params, { room: string; n: number }>>()
    return { celsius: params.n }
  },
})
is<Same<Parameters<typeof made.run>[0], { room: string; n: string }>>()
is<Same<ReturnType<typeof made.run>, Promise<{ celsius: number }>>>()

// @ts-expect-error the result does not fit
tool({
  name: 'arktype',
  description: '',
  outputSchema: type({ celsius: 'number' }),
  run: () => ({ celsius: '11.5' }),
})
