#!/bin/bash
# A private PostgreSQL for tests: without arguments it prints a URL and serves until its standard input ends; with a command
# it runs that with POSTGRES_URL set; with `--check` it reports only whether it could. POSTGRES_SETTINGS are more options of the server.
# POSTGRES_BIN is the folder of the programs of another build.
#
# It must never leave a server or a folder behind: the server ends with this script, however that ends.
set -euo pipefail

if [ -n "${POSTGRES_URL:-}" ]; then
  if [ "${1:-}" = --check ]; then exit 0; fi
  if [ $# -gt 0 ]; then exec "$@"; fi
  echo "$POSTGRES_URL"
  exec cat > /dev/null
fi

# The programs of the server are not on the path in Debian.
bin=${POSTGRES_BIN:-$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t/ -k5 -n | tail -1 || true)}
if [ -z "$bin" ] && command -v initdb > /dev/null; then bin=$(dirname "$(readlink -f "$(command -v initdb)")"); fi
if [ -z "$bin" ] || [ ! -x "$bin/initdb" ] || [ ! -x "$bin/postgres" ]; then
  echo "there is no PostgreSQL: install Debian's \`postgresql\`, or set POSTGRES_URL" >&2
  exit 69
fi
# initdb and postgres refuse root.
as=()
if [ "$(id -u)" = 0 ]; then
  user=postgres
  id "$user" > /dev/null 2>&1 || user=nobody
  as=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups)
fi
(cd / && "${as[@]}" "$bin/postgres" --version > /dev/null) || { echo "\`$bin/postgres\` cannot be run${user:+ by $user}" >&2; exit 69; }
if [ "${1:-}" = --check ]; then exit 0; fi

# Folders of runs that were killed before they could remove theirs.
for left in /tmp/agent-pg.*; do
  if [ -r "$left/owner" ] && ! kill -0 "$(cat "$left/owner")" 2>/dev/null; then rm -rf "$left"; fi
done
home=$(mktemp -d /tmp/agent-pg.XXXXXX)
echo $$ > "$home/owner"
chmod 755 "$home"
server=
stop() {
  trap - EXIT
  if [ -n "$server" ]; then kill -QUIT "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi
  rm -rf "$home"
}
trap stop EXIT
trap 'exit 143' TERM
trap 'exit 130' INT HUP

if [ ${#as[@]} -gt 0 ]; then chown "$user" "$home"; fi
cd "$home"
"${as[@]}" "$bin/initdb" -D "$home/data" -U agent -N -A trust --no-locale -E UTF8 > "$home/log" 2>&1 || { cat "$home/log" >&2; exit 1; }
die=()
if [ ${#as[@]} -gt 0 ]; then die=(--pdeathsig INT); fi
"${as[@]}" "${die[@]}" "$bin/postgres" -D "$home/data" -c listen_addresses= -c unix_socket_directories="$home" \
  -c fsync=off -c full_page_writes=off -c max_connections=200 -c autovacuum=off ${POSTGRES_SETTINGS:-} >> "$home/log" 2>&1 &
server=$!
for _ in $(seq 200); do
  if [ -S "$home/.s.PGSQL.5432" ] && "$bin/pg_isready" -q -h "$home" -U agent -d postgres; then ready=1; break; fi
  kill -0 "$server" 2>/dev/null || { cat "$home/log" >&2; exit 1; }
  sleep 0.05
done
[ -n "${ready:-}" ] || { echo "the server did not start" >&2; cat "$home/log" >&2; exit 1; }

url="postgres://agent@/postgres?host=$home"
if [ $# -gt 0 ]; then
  cd "$OLDPWD"
  status=0
  POSTGRES_URL=$url "$@" || status=$?
  exit $status
fi
echo "$url"
# The end of the parent ends this too.
cat > /dev/null
