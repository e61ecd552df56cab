/*
 * What stands before a stored text: a line that says what this is and how long
 * the parts are, then JSON that describes the result.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { Permission } from "../Permission.ts"
import type { StoredResult } from "../ResultStore.ts"
import type { Definition } from "../Tool.ts"
import { encode } from "./storedText.ts"

export interface Prefix {
  readonly headerBytes: number
  readonly textBytes: number
}

const NAME = "agcore result "
const VERSION = "1"
const HEADER_DIGITS = 10
const TEXT_DIGITS = 15

/** The length of the first line: it is read before anything is known. */
export const PREFIX_BYTES = NAME.length + VERSION.length + 1 + HEADER_DIGITS + 1 + TEXT_DIGITS + 1

const PREFIX = /^agcore result 1 (\d{10}) (\d{15})\n$/

/** A tool's limit of time is left out: it does not run again. */
const StoredTool = Schema.Struct({
  name: Schema.String,
  description: Schema.String,
  inputSchema: Schema.Record(Schema.String, Schema.Json),
  permissions: Schema.Array(Permission),
  tags: Schema.Array(Schema.String),
  category: Schema.optionalKey(Schema.String),
  version: Schema.optionalKey(Schema.String),
  readonly: Schema.Boolean,
  destructive: Schema.Boolean,
  idempotent: Schema.Boolean,
  openWorld: Schema.Boolean,
  needsApproval: Schema.Union([Schema.Boolean, Schema.Literal("by-arguments")])
})

const Header = Schema.fromJsonString(Schema.Struct({
  handle: Schema.String,
  idempotencyKey: Schema.String,
  mediaType: Schema.String,
  createdAtMillis: Schema.Finite,
  tool: StoredTool,
  input: Schema.Json
}))

const decode = Schema.decodeUnknownResult(Header)

/** What precedes the text. Throws where the arguments are not JSON. */
export const write = ({ sizeBytes, ...info }: StoredResult): Uint8Array<ArrayBuffer> => {
  const tool: Definition = { ...info.tool, timeout: undefined }
  const header = encode(JSON.stringify({ ...info, tool, input: info.input ?? null }))
  const lengths = [
    String(header.length).padStart(HEADER_DIGITS, "0"),
    String(sizeBytes).padStart(TEXT_DIGITS, "0")
  ]
  const all = new Uint8Array(PREFIX_BYTES + header.length)
  all.set(encode(`${NAME}${VERSION} ${lengths.join(" ")}\n`))
  all.set(header, PREFIX_BYTES)
  return all
}

/** The lengths, or why there are none. */
export const readPrefix = (line: string): Result.Result<Prefix, string> => {
  const match = PREFIX.exec(line)
  if (match !== null) return Result.succeed({ headerBytes: Number(match[1]), textBytes: Number(match[2]) })
  return Result.fail(
    line.startsWith(NAME) && !line.startsWith(`${NAME}${VERSION} `)
      ? "it was written by another version of agcore"
      : "it is damaged"
  )
}

export const readHeader = (json: string, sizeBytes: number): Result.Result<StoredResult, string> =>
  Result.mapBoth(decode(json), {
    onFailure: () => "it is damaged",
    onSuccess: (header) => ({
      ...header,
      sizeBytes,
      tool: { ...header.tool, category: header.tool.category, version: header.tool.version, timeout: undefined }
    })
  })
