/**
 * What the servers share: they tell their parent where they listen and go when it goes.
 */
import type { IncomingMessage, Server } from "node:http"
import type { AddressInfo } from "node:net"

/** Listens on a free port of the loopback interface, until the parent is gone. */
export const listen = (server: Server): void => {
  process.on("disconnect", () => process.exit(0))
  // The terminal interrupts the whole group; the parent decides when the servers go.
  process.on("SIGINT", () => {})
  // Longer than any pause of a sample: a new connection would cost the contestant whose was dropped.
  server.keepAliveTimeout = 60_000
  server.listen(0, "127.0.0.1", () => {
    // A TCP server's address is never a string.
    const { port } = server.address() as AddressInfo
    process.send?.({ url: `http://127.0.0.1:${port}` })
  })
}

export const readBody = (request: IncomingMessage): Promise<string> =>
  new Promise((resolve, reject) => {
    const pieces: Array<Buffer> = []
    request.on("data", (piece: Buffer) => pieces.push(piece))
    request.on("end", () => resolve(Buffer.concat(pieces).toString()))
    request.on("error", reject)
  })
