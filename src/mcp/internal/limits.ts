/**
 * The limits of a connection. What goes over them fails the call that caused it; the connection goes on where the framing
 * allows it.
 */

/** A message longer than this is passed over: `maxMessageBytes`. */
export const MAX_MESSAGE_BYTES = 16 * 1024 * 1024

/** Output that waits for the server to read it; callers wait for room within their deadline. */
export const MAX_QUEUED_BYTES = 8 * 1024 * 1024

/** How much of standard error is kept for errors. */
export const STDERR_TAIL_BYTES = 8 * 1024

/** Pages of one listing, and items of one listing: `maxPages`, `maxItems`. */
export const MAX_PAGES = 100
export const MAX_ITEMS = 10_000

/** Notifications that wait for a slow consumer of the stream; the oldest give way: `notificationBacklog`. */
export const NOTIFICATION_BACKLOG = 256

/** Progress events that wait for a slow `onProgress`; the oldest give way. */
export const PROGRESS_BACKLOG = 64

/** Requests of the server that are being answered at one time. */
export const MAX_SERVER_REQUESTS = 32

/** Diagnostics that are kept to be looked at. */
export const DIAGNOSTICS_KEPT = 256

/** Rounds of `input_required` one call may take. */
export const MAX_INPUT_ROUNDS = 10
