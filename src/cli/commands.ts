/*
 * The `agcore` command.
 */
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { shownName } from "../internal/shown.ts"
import { excerpt, messageOf } from "../internal/text.ts"
import { defaultMaxTurns } from "../llm/CycleConfig.ts"
import * as LlmCycle from "../llm/LlmCycle.ts"
import { ToolRegistry } from "../tools/ToolRegistry.ts"
import type { ToolEntry } from "../tools/ToolSnapshot.ts"
import { audit } from "./audit.ts"
import { converse } from "./converse.ts"
import { runDemo } from "./demo/demo.ts"
import { serveScriptedModel } from "./demo/modelProcess.ts"
import { type CliFailure, failed, usage } from "./failure.ts"
import { print, style } from "./output.ts"
import { modelFlags, modelLayer, registryLayer, toolFlags } from "./setup.ts"

const json = Flag.Boolean("json").pipe(Flag.withDescription("Print JSON, one value a line"), Flag.withDefault(false))

const quiet = Flag.Boolean("quiet").pipe(
  Flag.withAlias("q"),
  Flag.withDescription("Print the answer alone, when it is complete"),
  Flag.withDefault(false)
)

// -----------------------------------------------------------------------------
// run
// -----------------------------------------------------------------------------

const run = Command.make(
  "run",
  {
    prompt: Argument.String("prompt").pipe(
      Argument.withDescription("What to ask; read from standard input where it is left out"),
      Argument.optional
    ),
    ...modelFlags,
    ...toolFlags,
    system: Flag.String("system").pipe(Flag.withDescription("Instructions for the model"), Flag.optional),
    maxTurns: Flag.Int("max-turns").pipe(
      Flag.withDescription(`How often the model may be asked. Default ${defaultMaxTurns}`),
      Flag.filter((turns) => turns > 0, (turns) => `expected at least 1, got ${turns}`),
      Flag.optional
    ),
    json,
    quiet
  },
  Effect.fnUntraced(function*(flags) {
    const prompt = yield* Option.match(flags.prompt, { onSome: Effect.succeed, onNone: () => readPrompt })
    yield* converse(prompt, flags.json ? "json" : flags.quiet ? "quiet" : "human").pipe(
      Effect.provide(
        LlmCycle.layer({
          // A person sees the refusal, and the model can do without the tool.
          errorPolicy: { PermissionDenied: "tell", NotFound: "tell" },
          system: Option.getOrUndefined(flags.system),
          maxTurns: Option.getOrUndefined(flags.maxTurns)
        }).pipe(Layer.provide([modelLayer(flags), registryLayer(flags)]))
      )
    )
  })
).pipe(
  Command.withDescription("Asks a model, lets it use tools, and prints the answer"),
  Command.withExamples([
    { command: "agcore run \"What is in this folder?\" --mcp mcp.json", description: "With the tools of MCP servers" },
    {
      command: "agcore run \"Hi\" --base-url http://localhost:11434/v1 --model qwen3",
      description: "With a model of Ollama"
    },
    { command: "git diff | agcore run --quiet", description: "With a prompt from a pipe" }
  ])
)

const readPrompt = Effect.suspend(() =>
  process.stdin.isTTY === true
    ? Effect.fail(usage("say what to ask: agcore run \"…\", or pipe it in"))
    : Stream.fromAsyncIterable<Uint8Array, CliFailure>(
      process.stdin,
      (cause) => failed(`cannot read standard input: ${messageOf(cause)}`)
    ).pipe(
      Stream.decodeText,
      Stream.mkString,
      Effect.map((text) => text.trim()),
      Effect.filterOrFail((text) => text !== "", () => usage("the prompt on standard input is empty"))
    )
)

// -----------------------------------------------------------------------------
// tools
// -----------------------------------------------------------------------------

const tools = Command.make(
  "tools",
  { ...toolFlags, json },
  Effect.fnUntraced(function*(flags) {
    const entries = yield* ToolRegistry.pipe(
      Effect.flatMap((registry) => registry.list),
      Effect.provide(registryLayer(flags))
    )
    if (flags.json) {
      for (const { definition } of entries) yield* print(JSON.stringify(definition))
    } else if (entries.length === 0) {
      yield* print("No tools. Name their source with --mcp or --tools.")
    } else {
      for (const entry of entries) yield* print(describe(entry))
    }
  })
).pipe(
  Command.withDescription("Lists the tools: what they do, where they come from, what they may do"),
  Command.withExamples([{ command: "agcore tools --mcp mcp.json", description: "The tools of MCP servers" }])
)

/** How much of a description is listed. */
const MAX_DESCRIPTION_CHARACTERS = 160

const describe = ({ definition, name }: ToolEntry): string => {
  const paint = style(process.stdout)
  const facts = [
    definition.category ?? "application",
    definition.permissions.length === 0 ? "no permission declared" : definition.permissions.join(", ")
  ]
  return `${paint.bold(name)}  ${paint.dim(facts.join(" · "))}\n  ${
    excerpt(shownName(definition.description), MAX_DESCRIPTION_CHARACTERS)
  }`
}

// -----------------------------------------------------------------------------
// call
// -----------------------------------------------------------------------------

const call = Command.make(
  "call",
  {
    name: Argument.String("name").pipe(Argument.withDescription("The tool")),
    params: Argument.String("json").pipe(
      Argument.withDescription("Its arguments, a JSON object"),
      Argument.withDefault("{}")
    ),
    ...toolFlags
  },
  Effect.fnUntraced(function*(flags) {
    const params = yield* Effect.try({
      try: (): unknown => JSON.parse(flags.params),
      catch: (cause) => usage(`the arguments are not JSON: ${messageOf(cause)}`)
    })
    const invocation = yield* ToolRegistry.pipe(
      Effect.flatMap((registry) => registry.invoke({ id: "call", name: flags.name, params })),
      Effect.catchTag("ToolError", (error) => Effect.fail(failed(error.message))),
      Effect.provide(registryLayer(flags))
    )
    yield* print(typeof invocation.output === "string" ? invocation.output : JSON.stringify(invocation.output, null, 2))
  })
).pipe(
  Command.withDescription("Calls one tool, under the same policy as a model's calls"),
  Command.withExamples([
    { command: "agcore call add '{\"a\":1,\"b\":2}' --tools ./tools.ts", description: "A tool of your own" }
  ])
)

// -----------------------------------------------------------------------------
// demo
// -----------------------------------------------------------------------------

const demo = Command.make(
  "demo",
  {
    prompt: Argument.String("prompt").pipe(
      Argument.withDescription("What to ask instead of the demo's own question"),
      Argument.optional
    ),
    yes: toolFlags.yes
  },
  ({ prompt, yes }) => runDemo(yes, Option.getOrUndefined(prompt))
).pipe(
  Command.withDescription(
    "Shows a conversation with tools, on a scripted model unless OPENAI_API_KEY or OPENAI_BASE_URL is set"
  )
)

const demoServer = Command.make(
  "demo-server",
  {
    port: Flag.Int("port").pipe(Flag.withDescription("Default: any free port"), Flag.withDefault(0))
  },
  ({ port }) => serveScriptedModel(port)
).pipe(Command.withDescription("Serves the demo's scripted model as an OpenAI-compatible API on 127.0.0.1"))

/** The whole command. */
export const agcore = Command.make("agcore").pipe(
  Command.withDescription("Tools for language models: run a conversation, look at tools, call one"),
  Command.withSubcommands([run, tools, call, audit, demo, demoServer])
)
