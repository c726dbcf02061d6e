// Types and code agree: every value that the declarations of the package and of its subpaths export exists at run time, and the other way round, for `require` and for
// named ESM imports. It must never test what an export does.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import ts from 'typescript'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const declarations = join(root, 'index.d.ts')
/** The published files: the package and its subpaths. */
const faces = ['index', 'web', 'testing', 'ai-sdk', 'run-agent', 'pi-ai', 'pi-agent', 'pi-session']

/** The values in the types: classes, functions, constants and enums, not interfaces and aliases. */
function declaredValues(face: string): string[] {
  const declarations = join(root, `${face}.d.ts`)
  const program = ts.createProgram([declarations], {
    strict: true,
    noEmit: true,
    types: [],
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
  })
  const checker = program.getTypeChecker()
  const source = program.getSourceFile(declarations)
  const module = source && checker.getSymbolAtLocation(source)
  if (!module) throw new Error(`\`${face}.d.ts\` exports nothing`)
  return checker
    .getExportsOfModule(module)
    .map((symbol) =>
      symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol,
    )
    .filter((symbol) => symbol.flags & ts.SymbolFlags.Value)
    .map((symbol) => symbol.name)
    .sort()
}

test.each(faces)(
  'every value that the types export exists, and every export has a type (%s)',
  (face) => {
    const exported = createRequire(import.meta.url)(`../../${face}.js`)
    expect(Object.keys(exported).sort()).toEqual(declaredValues(face))
  },
)

test.each(faces)('an ESM import by name has the exports of require (%s)', async (face) => {
  const imported = Object.keys(await import(pathToFileURL(join(root, `${face}.js`)).href))
  const names = imported.filter((name) => !['default', 'module.exports'].includes(name))
  expect(names.sort()).toEqual(declaredValues(face))
})

test('the private binding is not part of what is exported', () => {
  const text = readFileSync(declarations, 'utf8')
  expect(text).not.toMatch(/binding\.d\.ts|\bNative[A-Z]/)
})

test.each([
  ['linux', 'x64', '@nexus/agent-engine-linux-x64-'],
  ['darwin', 'arm64', '@nexus/agent-engine-darwin-arm64'],
  ['win32', 'x64', '@nexus/agent-engine-win32-x64-msvc'],
])('without the package of %s %s the error names it and a remedy', (platform, arch, name) => {
  const folder = mkdtempSync(join(tmpdir(), 'agent-engine-alone-'))
  try {
    for (const part of ['index.js', 'index.code.js', 'package.json']) {
      cpSync(join(root, part), join(folder, part), { recursive: true })
    }
    const script = `
      Object.defineProperty(process, 'platform', { value: '${platform}' })
      Object.defineProperty(process, 'arch', { value: '${arch}' })
      try { require(${JSON.stringify(join(folder, 'index.js'))}) } catch (error) {
        console.log(JSON.stringify([error.name, error.code, error.message, error.cause !== undefined]))
      }`
    const out = execFileSync(process.execPath, ['-e', script], { encoding: 'utf8' })
    const [kind, code, message, caused] = JSON.parse(out)
    expect([kind, code, caused]).toEqual(['AgentEngineError', 'addon_not_loaded', true])
    expect(message).toContain(`\`${name}`)
    expect(message).toContain('npm install --include=optional')
    expect(message).not.toMatch(/wasm/)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('loading the package loads no large part of Node.js that only some calls need', () => {
  const script = `require(${JSON.stringify(join(root, 'index.js'))}); console.log(JSON.stringify(process.moduleLoadList))`
  const loaded: string[] = JSON.parse(
    execFileSync(process.execPath, ['-e', script], { encoding: 'utf8' }),
  )
  expect(loaded).toContain('NativeModule path')
  // `node:crypto` takes a third of the time and memory that the whole package takes, with the streams that it loads.
  const large = ['crypto', 'stream', 'http', 'https', 'net', 'tls', 'child_process', 'zlib']
  expect(large.filter((name) => loaded.includes(`NativeModule ${name}`))).toEqual([])
})
