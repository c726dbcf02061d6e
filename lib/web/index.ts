// The public face of @nexus/agent-engine/web. It owns the list of exports and holds no logic. Nothing here may load the addon.

import type * as declared from '../../web.d.ts'
import { fromRequest } from './request.ts'
import { WebRequestError } from './request-error.ts'
import { lastEventId, lastSessionEvent } from './request-headers.ts'
import { toResponse, toSSE, writeSSE } from './responses.ts'

export { fromRequest, lastEventId, lastSessionEvent, toResponse, toSSE, WebRequestError, writeSSE }

/** Compiles only while each export is what `web.d.ts` declares. */
export type Face = [
  Conforms<typeof toSSE, typeof declared.toSSE>,
  Conforms<typeof toResponse, typeof declared.toResponse>,
  Conforms<typeof writeSSE, typeof declared.writeSSE>,
  Conforms<typeof lastEventId, typeof declared.lastEventId>,
  Conforms<typeof lastSessionEvent, typeof declared.lastSessionEvent>,
  Conforms<typeof fromRequest, typeof declared.fromRequest>,
  Conforms<typeof WebRequestError, typeof declared.WebRequestError>,
]
type Conforms<Made extends Declared, Declared> = Made
