// Patterns of schema libraries, each with texts to match. JavaScript itself decides which texts match; no expectation may be
// written here.

export const PATTERNS: [library: string, pattern: string, texts: string[]][] = [
  [
    'Zod 4 email',
    "^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$",
    [
      'a.b+c@d-e.example.com',
      '.a@b.co',
      'a..b@c.co',
      'a@b',
      `${'a'.repeat(3_000)}@${'b'.repeat(60)}`,
    ],
  ],
  [
    'Zod 4.6 email',
    "^(?:[A-Za-z0-9_'+\\-]+\\.)*[A-Za-z0-9_'+\\-]*[A-Za-z0-9_+-]@(?:[A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$",
    ['a.b@c.de', 'a..b@c.de', `${'a-'.repeat(2_000)}@`],
  ],
  [
    'Zod 4 duration',
    '^P(?:(\\d+W)|(?!.*W)(?=\\d|T\\d)(\\d+Y)?(\\d+M)?(\\d+D)?(T(?=\\d)(\\d+H)?(\\d+M)?(\\d+([.,]\\d+)?S)?)?)$',
    ['P3W', 'P1Y2M3DT4H5M6.7S', 'PT', 'P', 'P1YW', 'PT5M'],
  ],
  [
    'Zod 4 hostname',
    '^(?=.{1,253}\\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\\.?$',
    ['example.com', 'a-.b', 'localhost.', `${'a.'.repeat(200)}b`, `${'a'.repeat(64)}.b`],
  ],
  [
    'Zod 4 domain',
    '^(?=.{1,253}$)([a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\\.)+[a-zA-Z]{2,63}$',
    ['example.com', 'example', 'a.b.c.dev', '-a.com'],
  ],
  [
    'Zod 4 IBAN',
    '^[A-Z]{2}(?!00|01|99)\\d{2}[A-Z0-9]{11,30}$',
    ['DE89370400440532013000', 'DE00370400440532013000'],
  ],
  [
    'Zod 4 e-mail in Unicode',
    '^[^\\s@"]{1,64}@[^\\s@]{1,255}$',
    ['jürgen@bücher.example', 'a b@c', '😀@x.y'],
  ],
  [
    'Zod 4 emoji',
    '^(\\p{Extended_Pictographic}|\\p{Emoji_Component})+$',
    ['🙂', '👩‍👩‍👧', 'a', '🙂a'],
  ],
  [
    'Zod 4 base64',
    '^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$',
    ['', 'AAAA', 'AAA=', 'AA=', 'A'.repeat(100_000), 'A'.repeat(100_001)],
  ],
  [
    'Zod 4 ULID',
    '^[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}$',
    ['01ARZ3NDEKTSV4RRFFQ69G5FAV', '01ARZ3NDEKTSV4RRFFQ69G5FAU!'],
  ],
  ['Zod 4 any string', '^[\\s\\S]{0,}$', ['', 'a\nb', '\u2028']],
  ['Zod 4 E.164', '^\\+[1-9]\\d{6,14}$', ['+4915112345678', '+0123456', '+1']],
  ['Zod 4 lower case', '^[^A-Z]*$', ['abc', 'aBc', 'ü']],
  [
    'Zod 4 date',
    '^(?:(?:\\d\\d[2468][048]|\\d\\d[13579][26]|\\d\\d0[48]|[02468][048]00|[13579][26]00)-02-29|\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|(?:02)-(?:0[1-9]|1\\d|2[0-8])))$',
    ['2024-02-29', '2023-02-29', '2023-12-31', '2023-13-01'],
  ],
  ['TypeBox record of strings', '^(.*)$', ['', 'key', 'a.b']],
  ['TypeBox record of numbers', '^-?(0|[1-9][0-9]*)(\\.[0-9]+)?$', ['-1.5', '01', '0']],
  ['TypeBox template literal', '^(on|off)-(0|[1-9][0-9]*)$', ['on-1', 'off-01', 'x-1']],
  [
    'TypeBox format of an e-mail',
    "^(?!\\.)(?!.*\\.{2})[a-z0-9!#$%&'*+/=?^_`{|}~.-]+(?<!\\.)@[a-z0-9-]+(\\.[a-z0-9-]+)*$",
    ['a.b@c', 'a.@c', 'a..b@c'],
  ],
  [
    'Valibot hex color',
    '^#(?:[\\da-f]{3,4}|[\\da-f]{6}|[\\da-f]{8})$',
    ['#fff', '#ffff', '#fffff', '#12345678'],
  ],
  ['Valibot slug', '^[\\da-z]+(?:[-_][\\da-z]+)*$', ['a-b_c', 'a--b', '-a']],
  ['Valibot decimal', '^[+-]?(?:\\d*\\.)?\\d+$', ['+.5', '1.', '-12.25']],
  [
    'Valibot MAC',
    '^(?:[\\da-f]{2}:){5}[\\da-f]{2}$|^(?:[\\da-f]{2}-){5}[\\da-f]{2}$|^(?:[\\da-f]{4}\\.){2}[\\da-f]{4}$',
    ['00:1b:44:11:3a:b7', '00-1b-44-11-3a-b7', '001b.4411.3ab7', '00:1b-44:11:3a:b7'],
  ],
  ['Valibot ISO time', '^(?:0\\d|1\\d|2[0-3]):[0-5]\\d:[0-5]\\d$', ['23:59:59', '24:00:00']],
  ['ArkType e-mail', '^[\\w%+.-]+@[\\d.A-Za-z-]+\\.[A-Za-z]{2,}$', ['a%b@c.de', 'a@b']],
  [
    'ArkType number',
    '^(?!^-0\\.?0*$)-?(?:(?:0|[1-9]\\d*)(?:\\.\\d+)?|\\.\\d+)$',
    ['0', '-0', '-0.00', '-1.50', '.5', '00'],
  ],
  [
    'ArkType version',
    '^(0|[1-9]\\d*)\\.(0|[1-9]\\d*)\\.(0|[1-9]\\d*)(?:-((?:0|[1-9]\\d*|\\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\\.(?:0|[1-9]\\d*|\\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?(?:\\+([0-9a-zA-Z-]+(?:\\.[0-9a-zA-Z-]+)*))?$',
    ['1.2.3', '1.2.3-beta.1+build.5', '1.2', '01.2.3'],
  ],
  [
    'a password',
    '^(?=.*[A-Z])(?=.*[a-z])(?=.*\\d)(?=.*[^\\w\\s]).{8,}$',
    ['Passw0rd!', 'password', `Aa1!${'x'.repeat(50_000)}`],
  ],
  [
    'no forbidden word',
    '^((?!DROP TABLE).)*$',
    ['SELECT 1', 'x; DROP TABLE y', 'a'.repeat(20_000)],
  ],
  ['a quoted text', '^(["\'])(?:(?!\\1).)*\\1$', ['"a\'b"', "'a\"b'", '"a"b"']],
  ['a tag and its end', '^<(?<tag>[a-z]+)>.*</\\k<tag>>$', ['<b>x</b>', '<b>x</i>']],
  ['thousands', '^\\d{1,3}(?:,\\d{3})*(?:\\.\\d+)?(?<!\\.)$', ['1,234.5', '1,23', '12']],
  ['an amount', '(?<=\\$)\\d+(?:\\.\\d\\d)?(?!\\d)', ['$12.50', '12.50', 'cost $3']],
]
