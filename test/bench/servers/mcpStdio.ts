/**
 * The echo server on standard input and output, with as many tools as its argument says. It leaves when its input ends.
 */
import { answering } from "./mcp.ts"
import type { Seen } from "./seen.ts"

const seen: Seen = { requests: 0, problems: [] }
const answer = answering(Number(process.argv[2]), () => seen)

// What of a line has come so far: joined once, when its end is here, for lines may come in many pieces.
let begun: Array<string> = []
process.stdin.setEncoding("utf8")
process.stdin.on("data", (chunk: string) => {
  const lines = chunk.split("\n")
  const last = lines.pop() ?? ""
  const answers: Array<string> = []
  for (const line of lines) {
    const answered = answer(begun.length === 0 ? line : begun.join("") + line)
    begun = []
    if (answered !== undefined) answers.push(answered, "\n")
  }
  if (last !== "") begun.push(last)
  // One write for all that one read has brought.
  if (answers.length > 0) process.stdout.write(answers.join(""))
})
process.stdin.on("end", () => process.exit(0))
