/**
 * Something a server did that was put right or passed over, and that a person who looks for a fault wants to know.
 */
export interface Diagnostic {
  readonly kind:
    /** Something on the wire that is no message. */
    | "noise"
    /** An answer nobody waits for: late, twice, or to an id never sent. */
    | "unexpected-answer"
    /** An item of a list or a content block that was left out, and why. */
    | "dropped-item"
    /** An item that is used although a part of it is wrong. */
    | "repaired-item"
    /** A schema that cannot be checked against. */
    | "unusable-schema"
    /** A list that ended before the server was done, by a limit or a repeated cursor. */
    | "incomplete-list"
    /** A request of the server that was declined. */
    | "declined-request"
    /** A message over a size limit that was passed over. */
    | "limit"
    /** A connection event: a session renewed, a stream resumed, a server restarted, a refresh that failed. */
    | "connection"
  readonly message: string
}
