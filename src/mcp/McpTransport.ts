/**
 * A way to carry messages to a server. Implement it to reach servers by other means than a child process or HTTP: a socket, a
 * message port, a server in the same process.
 *
 * @since 0.1.0
 */
import type { Diagnostic as InternalDiagnostic } from "./internal/diagnostic.ts"
import type {
  JsonRpcErrorObject as InternalErrorObject,
  JsonRpcNotification as InternalNotification,
  JsonRpcRequest as InternalRequest,
  JsonRpcResponse as InternalResponse
} from "./internal/jsonrpc.ts"
import type {
  Agreed as InternalAgreed,
  Exchange as InternalExchange,
  Transport as InternalTransport,
  TransportHandlers as InternalHandlers
} from "./internal/transport.ts"

/**
 * One way to carry JSON-RPC messages to and from a server.
 *
 * @category models
 * @since 0.1.0
 */
export type Transport = InternalTransport

/**
 * What a transport calls when something arrives or nothing can arrive any more.
 *
 * @category models
 * @since 0.1.0
 */
export type TransportHandlers = InternalHandlers

/**
 * What a transport is told about a message beside the message.
 *
 * @category models
 * @since 0.1.0
 */
export type Exchange = InternalExchange

/**
 * The protocol a connection speaks.
 *
 * @category models
 * @since 0.1.0
 */
export type Agreed = InternalAgreed

/**
 * Something a server did that was put right or passed over.
 *
 * @category models
 * @since 0.1.0
 */
export type Diagnostic = InternalDiagnostic

/**
 * A request to the server.
 *
 * @category models
 * @since 0.1.0
 */
export type JsonRpcRequest = InternalRequest

/**
 * A message that wants no answer.
 *
 * @category models
 * @since 0.1.0
 */
export type JsonRpcNotification = InternalNotification

/**
 * An answer.
 *
 * @category models
 * @since 0.1.0
 */
export type JsonRpcResponse = InternalResponse

/**
 * What an answer holds that is a failure.
 *
 * @category models
 * @since 0.1.0
 */
export type JsonRpcErrorObject = InternalErrorObject
