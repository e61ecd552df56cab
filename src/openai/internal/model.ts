/*
 * effect/ai's model service, with a short way for those who check tool calls themselves.
 *
 * effect/ai decodes every part it is given with a Schema: a third of what a streamed delta costs, and building that
 * Schema anew costs a request without tools more than all else in it. The parts of this layer fit by construction, so
 * decoding changes nothing in them but for a few fields. It is needed where calls have to be checked against their
 * tools; callers who defer that, as agcore's cycle does, get their parts made directly. A request that needs anything
 * else of effect/ai (approvals in the prompt, a tracker of response ids, a transformer of spans) goes its way.
 */
import type * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import { ResponseIdTracker } from "effect/ai/ResponseIdTracker"
import { CurrentSpanTransformer } from "effect/ai/Telemetry"
import type * as Tool from "effect/ai/Tool"
import * as Arr from "effect/Array"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { Span, SpanOptionsNoTrace } from "effect/Tracer"
import type { Concurrency } from "effect/Types"
import type { Answer } from "./answer.ts"
import * as Collect from "./collect.ts"
import type { Request } from "./failures.ts"
import { type StreamPart, toEncoded, toPart } from "./part.ts"

export interface Provider {
  readonly codecTransformer: LanguageModel.CodecTransformer
  /** Prepares a request; the effect in the effect sends it. */
  readonly ask: (
    request: LanguageModel.ProviderOptions,
    method: Request["method"]
  ) => Effect.Effect<Effect.Effect<Asked, AiError.AiError>, AiError.AiError>
}

/** A request that has been sent. Whoever sends it closes it. */
interface Asked {
  readonly answer: Answer
  readonly close: Effect.Effect<void>
}

/** The options of a request, as far as they matter here. */
interface Options {
  readonly prompt: Prompt.RawInput
  readonly toolkit?: Tools | Effect.Effect<Tools> | undefined
  readonly toolChoice?: LanguageModel.ToolChoice<string> | undefined
  readonly concurrency?: Concurrency | undefined
  readonly disableToolCallResolution?: boolean | undefined
  readonly toolCallValidation?: "strict" | "deferred" | undefined
}

type Tools = { readonly tools: Record<string, Tool.Any> }

/**
 * effect/ai's service without what its type says of toolkits: which parts, errors and needs a request has depends on the
 * toolkit, and nothing here does.
 */
interface Plain {
  readonly generateText: (options: Options) => Effect.Effect<WholeResponse, AiError.AiError>
  readonly streamText: (options: Options) => Stream.Stream<Response.AnyPart, AiError.AiError>
}

type WholeResponse = LanguageModel.GenerateTextResponse<Record<string, Tool.Any>, "deferred">

export const make = ({ ask, codecTransformer }: Provider): Effect.Effect<LanguageModel.LanguageModel> =>
  Effect.gen(function*() {
    const checking = yield* LanguageModel.make({
      codecTransformer,
      supportsSystemMessagesInHistory: Effect.succeed(true),
      generateText: (request) =>
        Effect.map(Effect.flatMap(ask(request, "generateText"), whole), (parts) => parts.map(toEncoded)),
      streamText: (request) =>
        Stream.unwrap(Effect.map(Effect.flatMap(ask(request, "streamText"), opened), toStream(toEncoded)))
    })
    const hasTransformer = has(yield* Effect.context(), CurrentSpanTransformer)
    // Neither says anything of toolkits; see `Plain`.
    const plain = shorten(checking as unknown as Plain, ask, hasTransformer)
    return { ...checking, ...(plain as unknown as Pick<typeof checking, keyof Plain>) }
  })

const shorten = (checking: Plain, ask: Provider["ask"], hasTransformer: boolean): Plain => {
  const needsChecks = (options: Options, context: Context.Context<never>): boolean =>
    hasTransformer || has(context, CurrentSpanTransformer) || has(context, ResponseIdTracker) ||
    options.disableToolCallResolution !== true || options.toolCallValidation !== "deferred" ||
    Prompt.make(options.prompt).content.some(hasApproval)

  return {
    generateText: (options) =>
      Effect.contextWith((context: Context.Context<never>) =>
        needsChecks(options, context)
          ? checking.generateText(options)
          : Effect.useSpan("LanguageModel.generateText", SPAN, (span) =>
            toRequest(options, span).pipe(
              Effect.flatMap((request) => ask(request, "generateText")),
              Effect.flatMap(whole),
              // Whole parts stay whole parts.
              Effect.map((parts) =>
                new LanguageModel.GenerateTextResponse(parts.map(toPart) as WholeResponse["content"])
              ),
              Effect.withParentSpan(span, { captureStackTrace: false })
            ))
      ),
    streamText: (options) =>
      Stream.unwrap(Effect.contextWith((context: Context.Context<never>) =>
        needsChecks(options, context)
          ? Effect.succeed(checking.streamText(options))
          : Effect.flatMap(Effect.makeSpanScoped("LanguageModel.streamText", SPAN), (span) =>
            toRequest(options, span).pipe(
              Effect.flatMap((request) =>
                ask(request, "streamText")
              ),
              Effect.flatMap(opened),
              Effect.map(toStream(toPart))
            ))
      ))
  }
}

/** Sends a request and reads its answer to the end. */
const whole = (send: Effect.Effect<Asked, AiError.AiError>) =>
  Effect.acquireUseRelease(send, ({ answer }) => Collect.whole(answer), ({ close }) => close)

/** Sends a request, whose answer can be read as long as the scope lives. */
const opened = (send: Effect.Effect<Asked, AiError.AiError>) => Effect.acquireRelease(send, ({ close }) => close)

const toStream = <A>(shape: (part: StreamPart) => A) => ({ answer }: Asked): Stream.Stream<A, AiError.AiError> =>
  Stream.fromPull(Effect.succeed(Effect.map(answer.pull, Arr.map(shape))))

const SPAN: SpanOptionsNoTrace = { kind: "client" }

const has = (context: Context.Context<never>, key: { readonly key: string }): boolean => context.mapUnsafe.has(key.key)

const hasApproval = ({ content, role }: Prompt.Message): boolean =>
  (role === "assistant" || role === "tool") &&
  content.some(({ type }) => type === "tool-approval-request" || type === "tool-approval-response")

const NO_TOOLS: ReadonlyArray<Tool.Any> = []

/** The tools of toolkits. A registry offers the same toolkit until it changes, and so the request gets the same list. */
const lists = new WeakMap<Tools, ReadonlyArray<Tool.Any>>()

const list = (toolkit: Tools): ReadonlyArray<Tool.Any> => {
  const all = lists.get(toolkit) ?? Object.values(toolkit.tools)
  lists.set(toolkit, all)
  return all
}

/** What effect/ai makes of the options of a request, and says of them in its span. */
const toRequest = (
  { concurrency = "unbounded", prompt, toolChoice = "auto", toolkit }: Options,
  span: Span
): Effect.Effect<LanguageModel.ProviderOptions> =>
  Effect.map(Effect.isEffect(toolkit) ? toolkit : Effect.succeed(toolkit), (toolkit) => {
    span.attribute("gen_ai.output.type", "text")
    span.attribute("effect.ai.tool_choice", typeof toolChoice === "string" ? toolChoice : JSON.stringify(toolChoice))
    span.attribute("effect.ai.concurrency", concurrency)
    const all = toolkit === undefined ? NO_TOOLS : list(toolkit)
    const tools = typeof toolChoice === "object" && "oneOf" in toolChoice
      ? all.filter((tool) => toolChoice.oneOf.includes(tool.name))
      : all
    return {
      prompt: Prompt.make(prompt),
      tools,
      toolChoice: all.length === 0 ? "none" : toolChoice,
      responseFormat: { type: "text" },
      span,
      previousResponseId: undefined,
      incrementalPrompt: undefined,
      toolCallValidation: "deferred"
    }
  })
