// The public face of @nexus/agent-engine/testing. It owns the list of exports and holds no logic.

import type * as declared from '../../testing.d.ts'
import { collect } from './collect.ts'
import { gate } from './gate.ts'
import { scriptedProvider } from './provider.ts'
import { scrub } from './scrub.ts'
import { disconnect, failure, reasoning, toolCall, usage } from './steps.ts'
import { transcript } from './transcript.ts'

export {
  collect,
  disconnect,
  failure,
  gate,
  reasoning,
  scriptedProvider,
  scrub,
  toolCall,
  transcript,
  usage,
}

/** Compiles only while each export is what `testing.d.ts` declares. */
export type Face = [
  Conforms<typeof collect, typeof declared.collect>,
  Conforms<typeof disconnect, typeof declared.disconnect>,
  Conforms<typeof failure, typeof declared.failure>,
  Conforms<typeof gate, typeof declared.gate>,
  Conforms<typeof reasoning, typeof declared.reasoning>,
  Conforms<typeof scriptedProvider, typeof declared.scriptedProvider>,
  Conforms<typeof scrub, typeof declared.scrub>,
  Conforms<typeof toolCall, typeof declared.toolCall>,
  Conforms<typeof transcript, typeof declared.transcript>,
  Conforms<typeof usage, typeof declared.usage>,
]
type Conforms<Made extends Declared, Declared> = Made
