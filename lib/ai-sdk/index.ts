// The public face of @nexus/agent-engine/ai-sdk. It owns the list of exports and holds no logic. Nothing here may load the addon or `ai`.

import type * as declared from '../../ai-sdk.d.ts'
import { fromModelMessages } from './model-messages.ts'
import { toUIMessageStream, toUIMessageStreamResponse, writeUIMessageStream } from './streams.ts'
import { fromUIMessages } from './ui-messages.ts'

export {
  fromModelMessages,
  fromUIMessages,
  toUIMessageStream,
  toUIMessageStreamResponse,
  writeUIMessageStream,
}

/** Compiles only while each export is what `ai-sdk.d.ts` declares. */
export type Face = [
  Conforms<typeof fromModelMessages, typeof declared.fromModelMessages>,
  Conforms<typeof fromUIMessages, typeof declared.fromUIMessages>,
  Conforms<typeof toUIMessageStream, typeof declared.toUIMessageStream>,
  Conforms<typeof toUIMessageStreamResponse, typeof declared.toUIMessageStreamResponse>,
  Conforms<typeof writeUIMessageStream, typeof declared.writeUIMessageStream>,
]
type Conforms<Made extends Declared, Declared> = Made
