/**
 * What a server says, made fit to be shown: names, descriptions, error texts and the tail of standard error.
 *
 * A terminal obeys escape sequences and a reader cannot see bidirectional overrides, zero-width characters or Unicode
 * tags, so text that is shown or given to a model as a description keeps none of them.
 */

// CSI, OSC (ended by BEL or ST, or not at all), the string sequences DCS/SOS/PM/APC, and two-character escapes; in their
// 7-bit form and, for CSI and OSC, in their 8-bit one.
const ESCAPE_SEQUENCE =
  // oxlint-disable-next-line no-control-regex -- these are what is looked for
  /\u001b\[[0-?]*[ -/]*[@-~]|\u009b[0-?]*[ -/]*[@-~]|(?:\u001b\]|\u009d)[^\u0007\u001b\u009c\n]*(?:\u0007|\u001b\\|\u009c)?|\u001b[PX^_][^\u001b\n]*(?:\u001b\\)?|\u001b[ -/]*[0-~]?/g

// C0 without tab and newline, DEL, C1, soft hyphen, zero-width, bidi marks and overrides, invisible operators, byte order
// mark, interlinear annotation, Unicode tags, variation selectors supplement.
const INVISIBLE =
  // oxlint-disable-next-line no-control-regex, no-misleading-character-class -- these are what is looked for
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|\u{e0000}|[\u{e0001}-\u{e007f}]|[\u{e0100}-\u{e01ef}]/gu

/** Removes what controls a terminal or cannot be seen. Newlines and tabs stay. */
export const shown = (text: string): string => text.replace(ESCAPE_SEQUENCE, "").replace(INVISIBLE, "")

/** Makes what controls a terminal or cannot be seen visible, as its code. Newlines and tabs stay. */
export const visible = (text: string): string =>
  text.replace(INVISIBLE, (character) => `\\u{${character.codePointAt(0)?.toString(16) ?? ""}}`)

/** {@link shown} on one line: a name or a title. */
export const shownName = (text: string): string => shown(text).replace(/[\t\n]+/g, " ").trim()
