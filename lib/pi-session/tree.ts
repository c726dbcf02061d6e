// A session's entries as a tree. It must never recurse: a session may be as deep as it is long.

import type { SessionEntry, SessionTreeNode } from '../../pi-session.d.ts'

type Labels = ReadonlyMap<string, { label: string; timestamp: string }>

/** The roots, with their descendants by time. An entry whose parent is unknown is a root. */
function treeOf(entries: readonly SessionEntry[], labels: Labels): SessionTreeNode[] {
  const nodes = new Map<string, SessionTreeNode>()
  for (const entry of entries) {
    const named = labels.get(entry.id)
    const node: SessionTreeNode = { entry, children: [] }
    if (named !== undefined)
      Object.assign(node, { label: named.label, labelTimestamp: named.timestamp })
    nodes.set(entry.id, node)
  }
  const roots: SessionTreeNode[] = []
  for (const node of nodes.values()) {
    const { id, parentId } = node.entry
    const parent = parentId === null || parentId === id ? undefined : nodes.get(parentId)
    if (parent === undefined) roots.push(node)
    else parent.children.push(node)
  }
  const time = ({ entry }: SessionTreeNode) => Date.parse(entry.timestamp)
  for (const { children } of nodes.values()) children.sort((one, other) => time(one) - time(other))
  return roots
}

export { treeOf }
