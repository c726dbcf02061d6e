// Numbers and times for people. It must never round a number that a program reads: those print JSON.

/** `2026-01-31 12:00`, in the zone of the machine. */
function time(at: number | null): string {
  if (at === null) return '-'
  const date = new Date(at)
  const two = (value: number) => String(value).padStart(2, '0')
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}`
}

/** `1,234,567` */
function count(value: number): string {
  return String(value).replace(/\B(?=(?:\d{3})+$)/g, ',')
}

/** `3 turns` */
function counted(value: number, what: string): string {
  return `${count(value)} ${what}${value === 1 ? '' : 's'}`
}

/** `$0.0123`; an unknown price is not 0. */
function money(value: number | null | undefined): string {
  if (value === null || value === undefined) return 'no price'
  return `$${value.toFixed(value !== 0 && value < 0.01 ? 6 : 4)}`
}

/** `1.2 MB` */
function bytes(value: number): string {
  if (value < 1000) return `${value} B`
  if (value < 1e6) return `${(value / 1e3).toFixed(1)} kB`
  return `${(value / 1e6).toFixed(1)} MB`
}

/** `850 ms`, `12.3 s` */
function duration(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`
}

export { bytes, count, counted, duration, money, time }
