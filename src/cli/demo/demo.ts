/*
 * The main job, shown on one conversation: parallel calls, a failing tool the
 * model recovers from, rounds that use the results of the ones before, a tool
 * of an MCP server, and a call that somebody has to approve.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { fileURLToPath } from "node:url"
import * as LlmCycle from "../../llm/LlmCycle.ts"
import * as McpServers from "../../mcp/McpServers.ts"
import * as McpTools from "../../mcp/McpTools.ts"
import * as OpenAiModel from "../../openai/OpenAiModel.ts"
import { converse } from "../converse.ts"
import { type CliFailure, failed } from "../failure.ts"
import { type OutputClosed, print, style } from "../output.ts"
import { hasModel, modelLayer, type Platform, policyLayer } from "../setup.ts"
import { startScriptedModel } from "./modelProcess.ts"
import * as DemoTools from "./tools.ts"

export const runDemo = (yes: boolean, question?: string): Effect.Effect<void, CliFailure | OutputClosed, Platform> =>
  Effect.scoped(
    Effect.gen(function*() {
      const paint = style(process.stdout)
      const files = yield* FileSystem.FileSystem
      const folder = yield* Effect.mapError(
        Effect.flatMap(files.makeTempDirectoryScoped({ prefix: "agcore-demo-" }), files.realPath),
        (error) => failed(error.message)
      )
      const baseUrl = (yield* hasModel) ? undefined : yield* startScriptedModel
      yield* print(paint.dim(
        baseUrl === undefined
          ? "The model is the one your environment names."
          : `The model is scripted: rules in a process of its own at ${baseUrl}, not a language model.\n`
            + "Set OPENAI_API_KEY or OPENAI_BASE_URL to talk to a real one."
      ))
      yield* print(paint.dim(
        filesystemServer === undefined
          ? "Without the package @modelcontextprotocol/server-filesystem there are no files."
          : `Files are those of an MCP server, in ${folder}.`
      ))
      yield* print(`${paint.bold(">")} ${question ?? QUESTION}\n`)

      const model = baseUrl === undefined
        ? modelLayer({ model: Option.none(), baseUrl: Option.none() })
        : OpenAiModel.layer({ model: "scripted", baseUrl })
      const cycle = LlmCycle.layer({
        system: `You help with weather and files. Files are in the folder: ${folder}`,
        // The model hears of a denial and does without.
        errorPolicy: { PermissionDenied: "tell" }
      })
      yield* converse(question ?? QUESTION, "human", process.stdout).pipe(
        Effect.provide(Layer.provide(cycle, [model, tools(folder, yes)]))
      )
    })
  )

const tools = (folder: string, yes: boolean) =>
  McpServers.layer(
    filesystemServer === undefined ? {} : {
      files: {
        type: "stdio",
        command: process.execPath,
        args: [filesystemServer, folder],
        tools: { permissions: (tool) => tool.hints.readOnly === true ? ["read"] : ["write"] }
      }
    }
  ).pipe(
    Layer.provideMerge(DemoTools.layer),
    // `delete` is left to be asked about.
    Layer.provide([
      policyLayer({ allow: ["write", McpTools.permission("files")], deny: [], yes }),
      FetchHttpClient.layer
    ])
  )

/** Where the server from npm is, if it is installed. */
const filesystemServer = ((): string | undefined => {
  try {
    return fileURLToPath(import.meta.resolve("@modelcontextprotocol/server-filesystem/dist/index.js"))
  } catch {
    return undefined
  }
})()

const QUESTION = [
  "What is the weather in Oslo and Lima?",
  "Convert the warmer temperature to Fahrenheit.",
  ...(filesystemServer === undefined ? [] : ["Write the results to the file weather.txt."]),
  "Erase all records."
].join(" ")
