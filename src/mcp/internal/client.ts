/**
 * Puts a client together: a connection, the lists, the calls, what the server may ask and what it tells.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { ClientOptions, CompleteRequest, McpClient } from "../McpClient.ts"
import { McpError, type McpErrorReason, NotSupported } from "../McpError.ts"
import type { Tool } from "../McpModel.ts"
import { makeAnswers } from "./answers.ts"
import { type Connection, makeConnection, type RequestOptions } from "./connection.ts"
import { decodeCompletion, decodePromptResult, decodeResourceResult } from "./decodeContent.ts"
import { decodeNotification, makeDiagnostics, makeEvents } from "./events.ts"
import { completeResult, makeRequestWithInput } from "./inputRequired.ts"
import type { JsonObject } from "./jsonrpc.ts"
import { isUnknownMethod, type Listener, makeListener } from "./listen.ts"
import { type Lists, makeLists } from "./lists.ts"
import { makeServerRequests, type ServerRequests } from "./serverRequests.ts"
import { settingsOf } from "./settings.ts"
import { makeCallTool } from "./toolCalls.ts"
import type { Transport } from "./transport.ts"
import { makeUrlRequired } from "./urlRequired.ts"

/** Scopes wait for the end of a subscription, so it is short. */
const SUBSCRIBE_MILLIS = 5_000

/** Where no connection comes about, nothing of the attempt stays, however long the Scope goes on. */
export const makeClient = (
  transport: Transport,
  options: ClientOptions
): Effect.Effect<McpClient, McpError, Scope.Scope> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(
      Effect.flatMap(Effect.scope, (outer) => Scope.fork(outer)),
      (scope) =>
        restore(Scope.provide(connect(transport, options), scope)).pipe(
          Effect.onExit((exit) => Exit.isFailure(exit) ? Scope.close(scope, exit) : Effect.void)
        )
    )
  )

const connect: (
  transport: Transport,
  options: ClientOptions
) => Effect.Effect<McpClient, McpError, Scope.Scope> = Effect.fnUntraced(function*(transport, options) {
  const settings = settingsOf(options, transport.label)
  const { server, timeoutMillis } = settings
  const clock = yield* Clock.Clock
  const events = yield* makeEvents(settings.notificationBacklog)
  const fail = (reason: McpErrorReason): McpError => new McpError({ server, reason })

  // Messages may come before what they are about exists.
  let lists: Lists | undefined
  let listener: Listener | undefined
  let log: (message: string) => void = () => {}
  const diagnostics = makeDiagnostics((diagnostic) => log(`MCP server "${server}": ${diagnostic.message}`))
  const { report } = diagnostics
  const answers = yield* makeAnswers(server, report)
  const urlRequired = makeUrlRequired(answers)
  const subscribed = new Map<string, number>()

  const changedLists = (method: string): boolean => {
    switch (method) {
      case "notifications/tools/list_changed":
        lists?.tools.changed()
        return true
      case "notifications/prompts/list_changed":
        lists?.prompts.changed()
        return true
      case "notifications/resources/list_changed":
        lists?.resources.changed()
        lists?.templates.changed()
        return true
      default:
        return false
    }
  }

  let serverRequests: ServerRequests
  const connection: Connection = yield* makeConnection(transport, {
    server,
    identity: { info: settings.clientInfo, capabilities: answers.capabilities },
    ...settings.connection
  }, (port) => {
    log = (message) => void port.run(Effect.logDebug(message))
    serverRequests = makeServerRequests(port, answers, report)
    return {
      notification(method, params) {
        if (changedLists(method)) return
        if (method === "notifications/cancelled") serverRequests.cancelled(params["requestId"])
        if (method === "notifications/elicitation/complete") urlRequired.completed(params["elicitationId"])
        if (method === "notifications/subscriptions/acknowledged") listener?.acknowledged(params)
        const notification = decodeNotification(method, params)
        if (notification !== undefined) events.publish(notification)
      },
      request: serverRequests.handle,
      disconnected: () => events.publish({ _tag: "Disconnected" }),
      reconnected() {
        for (const list of Object.values(lists ?? {})) if (list.peek() !== undefined) list.changed()
        for (const uri of subscribed.keys()) port.run(Effect.ignore(legacySubscribe("resources/subscribe", uri)))
        events.publish({ _tag: "Reconnected" })
      },
      diagnostic: report
    }
  })

  const listening = makeListener(() => connection, timeoutMillis, fail, report)
  listener = listening
  const isModern = (): boolean => connection.agreement().era === "modern"

  const request = (
    method: string,
    params: JsonObject,
    options?: Partial<RequestOptions>
  ): Effect.Effect<JsonObject, McpError> =>
    Effect.flatMap(
      connection.request(method, params, { timeoutMillis, ...options }),
      (result) => completeResult(method, connection.agreement().era, result, fail)
    )

  const requestWithInput = makeRequestWithInput(connection, answers, fail)
  const requestAnswering: typeof requestWithInput = (method, params, options) =>
    urlRequired.retry(requestWithInput(method, params, options))

  const legacySubscribe = (method: string, uri: string): Effect.Effect<unknown, McpError> =>
    request(method, { uri }, { timeoutMillis: Math.min(timeoutMillis, SUBSCRIBE_MILLIS) })

  const made = makeLists({ connection, transport, settings, clock, fail, report, publish: events.publish })
  lists = made

  // The legacy era tells of roots that changed; the modern one asks when it needs them.
  if (answers.roots !== undefined) {
    yield* answers.roots.changes.pipe(
      Stream.runForEach(() =>
        isModern() ? Effect.void : Effect.ignore(connection.notify("notifications/roots/list_changed", {}))
      ),
      Effect.forkScoped
    )
  }

  if (isModern()) {
    const { prompts, resources, tools } = connection.agreement().capabilities
    const filter: JsonObject = {
      ...(tools?.listChanged === true ? { toolsListChanged: true } : {}),
      ...(prompts?.listChanged === true ? { promptsListChanged: true } : {}),
      ...(resources?.listChanged === true ? { resourcesListChanged: true } : {})
    }
    if (Object.keys(filter).length > 0) {
      yield* Effect.retry(listening.open(filter), {
        schedule: Schedule.exponential("1 second"),
        while: (error) => !isUnknownMethod(error)
      }).pipe(Effect.ignore, Effect.forkScoped)
    }
  }

  let indexed: ReadonlyArray<Tool> | undefined
  let index: ReadonlyMap<string, Tool> = new Map()
  const callTool = makeCallTool({
    settings,
    hasHeaders: transport.kind === "http",
    tool(name) {
      const tools = made.tools.peek()
      if (tools !== indexed) {
        indexed = tools
        index = new Map(tools?.map((tool) => [tool.name, tool]))
      }
      return index.get(name)
    },
    refreshTools: made.tools.refresh,
    request: requestAnswering,
    fail,
    report
  })

  const unavailable = (method: string, detail: string): Effect.Effect<never, McpError> =>
    Effect.fail(fail(new NotSupported({ method, detail })))

  return {
    name: server,
    get protocolVersion() {
      return connection.agreement().version
    },
    get serverInfo() {
      return connection.agreement().serverInfo
    },
    get instructions() {
      return connection.agreement().instructions
    },
    get capabilities() {
      return connection.agreement().capabilities
    },
    listTools: made.tools.get,
    refreshTools: made.tools.refresh,
    callTool,
    listPrompts: made.prompts.get,
    getPrompt: (name, args) =>
      Effect.map(
        requestAnswering("prompts/get", { name, arguments: args ?? {} }, { timeoutMillis, name }),
        (raw) => decodePromptResult(raw, report)
      ),
    listResources: made.resources.get,
    listResourceTemplates: made.templates.get,
    readResource: (uri) =>
      Effect.map(
        requestAnswering("resources/read", { uri }, { timeoutMillis, name: uri }),
        (raw) => decodeResourceResult(raw, report)
      ),
    subscribe: (uri) =>
      Effect.suspend(() => {
        if (connection.agreement().capabilities.resources?.subscribe !== true) {
          return unavailable("resources/subscribe", "the server does not offer it")
        }
        if (isModern()) return listening.open({ resourceSubscriptions: [uri] })
        return Effect.acquireRelease(
          Effect.map(legacySubscribe("resources/subscribe", uri), () => {
            subscribed.set(uri, (subscribed.get(uri) ?? 0) + 1)
          }),
          () =>
            Effect.suspend(() => {
              const others = (subscribed.get(uri) ?? 1) - 1
              if (others > 0) {
                subscribed.set(uri, others)
                return Effect.void
              }
              subscribed.delete(uri)
              return Effect.ignore(legacySubscribe("resources/unsubscribe", uri))
            })
        )
      }),
    complete: (request_) => Effect.map(request("completion/complete", completionParams(request_)), decodeCompletion),
    setLogLevel: (level) =>
      Effect.suspend(() => {
        connection.setLogLevel(level)
        return isModern() ? Effect.void : Effect.asVoid(request("logging/setLevel", { level }))
      }),
    // The modern era has no ping; the one question every server must answer takes its place.
    ping: Effect.suspend(() => Effect.asVoid(request(isModern() ? "server/discover" : "ping", {}))),
    notifications: events.notifications,
    diagnostics: Effect.sync(diagnostics.all)
  }
})

const completionParams = ({ argument, context, ref }: CompleteRequest): JsonObject => ({
  ref: "prompt" in ref
    ? { type: "ref/prompt", name: ref.prompt }
    : { type: "ref/resource", uri: ref.resourceTemplate },
  argument,
  ...(context === undefined ? {} : { context: { arguments: context } })
})
